"""Messages for the scripted model that several files send."""

SUDO_COMMAND = '[tool terminal {"command": "sudo -n true; echo it ran"}] [then] [text that was it]'

"""`holdfast chat`: the interactive chat, its screen and its keyboard."""

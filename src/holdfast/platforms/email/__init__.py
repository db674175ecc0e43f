"""E-mail: a mailbox that is read over IMAP and answered over SMTP."""

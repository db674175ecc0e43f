"""From a platform to a lane: access, pairing, attachments, intake, routing."""

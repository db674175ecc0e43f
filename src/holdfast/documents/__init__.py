"""Documents: what attached files say, read beside the gateway and shown to the model in part."""

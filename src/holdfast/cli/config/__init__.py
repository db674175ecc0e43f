"""`holdfast config`: the command group and changes of the configuration."""

"""The files of a home that a person writes, by their names."""

CONFIG_FILE = "holdfast.toml"
ENV_FILE = ".env"

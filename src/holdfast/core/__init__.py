"""The words and rules: frozen structs, pure functions, and the ports. Nothing here does I/O."""

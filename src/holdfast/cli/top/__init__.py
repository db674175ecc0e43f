"""`holdfast top`: the live view of a gateway on a terminal."""

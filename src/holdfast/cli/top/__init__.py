"""`holdfast top`: a gateway at work, live on a terminal."""

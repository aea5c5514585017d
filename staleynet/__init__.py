"""StaleyNET: a decoder-only transformer that learns music from recordings, with every kernel written in kdsl.

The rooms, each importing only from those before it: `kernels` (what runs on a device), `ops` (one checked function per launch), then
`audio`, `tokenizer`, `data` and `model`; `python -m staleynet.train`, `.tokenize` and `.generate` are the entry points. Importing this
package loads none of them.
"""

"""A backup as one file: a zip of the files of a home under `home/`, and `manifest.json` with the digest of each.

`manifest` says what may stand in one (pure); `pack` writes it; `read` opens one that anybody may have made, and
believes nothing of it; `swap` puts a new home in the place of the old one. A zip, since its index is read before
anything else is, each file can be taken out alone, and every system has a program for it.
"""

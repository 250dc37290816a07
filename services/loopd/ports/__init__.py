"""The daemons that loopd asks: memoryd and brokerd over frames, the model over HTTP through egressd."""

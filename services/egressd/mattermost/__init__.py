"""The connection to a Mattermost server: a closed table of its REST API, and its WebSocket."""

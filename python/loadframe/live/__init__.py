"""Live page: a browser page with the progress of a command that loads a store.

Each command writes a feed, a small file in the state folder. A server, in the same or another process, follows the feed
and relays it to browsers. The feed does not depend on the server, nor the server on a cluster.
"""

"""The live page: what a command that loads a store tells while it does, and a page in a browser that shows it.

A command writes a feed, a small file in the state folder, whether or not anybody looks. A server, in the same process
or in another, follows the feed and sends it on to browsers. The feed knows of no server, and the server of no cluster.
"""

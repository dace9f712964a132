"""The status page of the admin port: how the node is, and an explorer of what it serves; the latter also by itself.

GET /                        the page; the same bytes for everybody, without anything that the node knows
GET /status-page/<file>      its style, its scripts, its icon
GET /status-page/overview    how the node is            ┐
GET /status-page/find        what a number or hash is   ├ behind the key of the port
GET /status-page/block       a block, whole             │
GET /status-page/trace       what a transaction did     ┘
"""

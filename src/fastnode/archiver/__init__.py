"""The chain store: blocks, transactions, checkpoints and messages in LevelDB, ready to be sent.

``store`` owns the database and its key layout, ``ingest`` is the only writer, ``queries`` is
what every reader sees.
"""

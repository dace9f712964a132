"""Names of contracts: artifacts that were registered here, those of the release's packages, and what they tell of
calls, logs and storage.

    store = ArtifactStore(data_directory / "artifacts")
    store.register(record, check)                 # checked, kept over restarts
    Naming(store, chain).of_call(address, calldata, output)
"""

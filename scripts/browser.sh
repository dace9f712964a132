# Sourced by test, after environment.sh: `offer_browser` sees to a Chromium for the tests of the status page.
#
# It is installed where that is possible without asking: as root on Debian.  Elsewhere, or without a network, those
# tests are skipped; it never keeps the others from running.  A failed installation is not tried again with the same .venv.

find_browser() {
    local name
    # The names that tests/status_page/chromium.py looks for.
    for name in chromium chromium-headless-shell chromium-browser google-chrome-stable google-chrome; do
        command -v "$name" >/dev/null && return
    done
    return 1
}

is_root_on_debian() {
    [ "$EUID" = 0 ] && command -v apt-get >/dev/null && grep -qx 'ID=debian' /etc/os-release 2>/dev/null
}

install_browser() {
    local options=(-q -y -o Acquire::Retries=1 -o Acquire::http::Timeout=20)
    export DEBIAN_FRONTEND=noninteractive
    apt-get "${options[@]}" update && apt-get "${options[@]}" install --no-install-recommends chromium
}

offer_browser() {
    local failed="$stamps/browser-failed"
    if [ -n "${FASTNODE_CHROMIUM:-}" ] || find_browser; then
        return 0
    fi
    if ! is_root_on_debian; then
        say "no Chromium found: the tests of the status page in a browser are skipped (FASTNODE_CHROMIUM=/path names one)"
    elif [ -e "$failed" ]; then
        say "no Chromium, as it could not be installed before: tests in a browser are skipped (rm $failed to try again)"
    else
        say "installing Chromium for the tests of the status page"
        mkdir -p "$stamps"
        if ! install_browser >"$stamps/browser.log" 2>&1; then
            : >"$failed"
            say "Chromium could not be installed ($stamps/browser.log): the tests in a browser are skipped"
        fi
    fi
}

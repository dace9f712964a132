# Sourced by run, test and bench: `prepare_environment run|test|bench` leaves a .venv in which fastnode is installed in
# place with its extensions built, and sets $venv_python.  FASTNODE_VENV names another place than .venv.
#
# What was done is remembered as stamps under .venv/fastnode-stamps, each written after the work it stands for, so that an
# interrupted run repeats a step and a complete one is skipped.  Stamps are made of the content of files, never of times:
#
#   python        the interpreter the environment was made from, as PYTHON= named it
#   pinned-KIND   checksum of the releases that were installed: to run, or to test and measure
#   bytecode      nothing; its time is when the package was compiled last
#   extensions    checksum of every file that goes into the build, one per line

project_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv="${FASTNODE_VENV:-$project_root/.venv}"
venv_python="$venv/bin/python"
stamps="$venv/fastnode-stamps"
# Lives outside .venv, because `venv --clear` empties .venv; present while .venv is half made.
venv_name=$(basename "$venv")
venv_unfinished="$project_root/build/${venv_name#.}-unfinished"

say() { printf 'fastnode: %s\n' "$*" >&2; }
die() { printf 'fastnode: error: %s\n' "$*" >&2; exit 1; }

# Prints the comment at the top of the running script and ends, if the first argument asks for help.
help_if_asked() {
    local line
    case "${1:-}" in -h | --help) ;; *) return 0 ;; esac
    while IFS= read -r line; do
        case $line in
            '#!'*) ;;
            '#'*) line=${line#?}; printf '%s\n' "${line# }" ;;
            *) exit 0 ;;
        esac
    done <"$0"
}

# Prints "3.11" and the like; fails when the command is no working Python (a pyenv shim, say).
python_version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }

supported() {
    case $1 in 3.*) [ "${1#3.}" -ge 11 ] ;; *) return 1 ;; esac
}

why_these_versions="fastnode needs Python 3.11 or newer"

# Whether plyvel, the LevelDB binding, publishes a wheel for Python $1 on this machine.
has_leveldb_wheel() {
    { [ "$1" = 3.11 ] || [ "$1" = 3.12 ]; } && [ "$(uname -s)-$(uname -m)" = Linux-x86_64 ]
}

# Elsewhere it is compiled against the LevelDB of the system.
require_leveldb() {
    local compiler version
    version=$(python_version "$1")
    has_leveldb_wheel "$version" && return
    for compiler in "${CXX:-}" c++ g++ clang++; do
        [ -n "$compiler" ] && command -v "${compiler%% *}" >/dev/null || continue
        # No pipe: a compiler that ends before it has read all of it would fail the line's writer.
        $compiler -x c++ -E - >/dev/null 2>&1 <<<'#include <leveldb/db.h>' && return
        break
    done
    die "plyvel, the LevelDB binding, has no wheel for Python $version on this machine, and a C++ compiler with the" \
        "headers of LevelDB is missing; Debian and Ubuntu: apt install g++ libleveldb-dev, Fedora: dnf install gcc-c++" \
        "leveldb-devel, macOS: brew install leveldb"
}

# Sets $base_python.
find_python() {
    local candidate version seen=""
    if [ -n "${PYTHON:-}" ]; then
        version=$(python_version "$PYTHON") || die "PYTHON=$PYTHON does not run; $why_these_versions"
        supported "$version" || die "PYTHON=$PYTHON is Python $version; $why_these_versions"
        base_python=$PYTHON
        return
    fi
    for candidate in python3.12 python3.11 python3.13 python3 python; do
        version=$(python_version "$candidate") || continue
        if supported "$version"; then
            base_python=$candidate
            return
        fi
        seen="$seen, $candidate is $version"
    done
    if [ -z "$seen" ]; then
        die "no Python found; $why_these_versions (set PYTHON=/path/to/python3.12 if it is not on the PATH)"
    fi
    die "no fitting Python found (${seen#, }); $why_these_versions (set PYTHON=/path/to/python3.12 if it is not on the PATH)"
}

require_compiler() {
    local compiler
    if [ -n "${CC:-}" ]; then
        # CC may carry flags; its first word is the command.
        command -v "${CC%% *}" >/dev/null || die "CC=$CC names no C compiler; fastnode compiles its extensions on this machine"
        return
    fi
    for compiler in cc gcc clang; do
        if command -v "$compiler" >/dev/null; then
            # distutils calls the name that Python itself was built with, which need not exist here.
            export CC=$compiler
            return
        fi
    done
    die "no C compiler found (tried cc, gcc, clang); fastnode compiles its extensions on this machine" \
        "(Debian and Ubuntu: apt install gcc libc6-dev; Fedora: dnf install gcc; macOS: xcode-select --install; or set CC=)"
}

require_headers() {
    "$1" -c 'import pathlib, sys, sysconfig; sys.exit(not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists())' ||
        die "the C headers of Python $(python_version "$1") are missing;" \
            "Debian and Ubuntu: apt install python$(python_version "$1")-dev, Fedora: dnf install python3-devel"
}

require_venv_module() {
    "$1" -c 'import ensurepip, venv' 2>/dev/null ||
        die "Python $(python_version "$1") has no venv module; Debian and Ubuntu: apt install python$(python_version "$1")-venv"
}

# Sets $pins and $pins_stamp: the releases to install, with the hashes of their files, for what is prepared.
choose_pins() {
    pins_stamp=pinned-test pins=("$project_root/tests/constraints.txt")
    if [ "$1" = run ] && ! pins_are_installed; then
        pins_stamp=pinned-run pins=("$project_root/deploy/docker/build-constraints.txt" "$project_root/deploy/docker/constraints.txt")
    fi
}

checksum_of_pins() { cat "${pins[@]}" | cksum; }

pins_are_installed() { stamped "$pins_stamp" "$(checksum_of_pins)"; }

checksums_of_sources() {
    (cd "$project_root" && find setup.py src/fastnode/_ext -type f \
        \( -name '*.py' -o -name '*.pyx' -o -name '*.pxd' -o -path '*/c/*.c' -o -name '*.h' \) -exec cksum {} + | LC_ALL=C sort -k 3)
}

stamped() { [ -f "$stamps/$1" ] && [ "$(cat "$stamps/$1")" = "$2" ]; }

stamp() {
    mkdir -p "$stamps"
    printf '%s\n' "$2" >"$stamps/$1.new"
    mv "$stamps/$1.new" "$stamps/$1"
}

wanted_python() { [ -z "${PYTHON:-}" ] || command -v "$PYTHON"; }

# Compiles what has changed since the last time, whatever PYTHONDONTWRITEBYTECODE says: without it every start and every
# command would compile the package again, which takes longer than the start itself.
compile_package() {
    local stamp="$stamps/bytecode" found
    if [ -e "$stamp" ]; then
        found=$(find "$project_root/src/fastnode" -name '*.py' -newer "$stamp" -print -quit)
        [ -n "$found" ] || return 0
    fi
    mkdir -p "$stamps"
    touch "$stamp.$$"
    # Where the sources cannot be written next to, everything works as well, only slower.
    "$venv_python" -m compileall -q "$project_root/src/fastnode" || { rm "$stamp.$$"; return 0; }
    mv "$stamp.$$" "$stamp"
}

environment_is_ready() {
    [ -x "$venv_python" ] && [ ! -e "$venv_unfinished" ] &&
        { [ -z "${PYTHON:-}" ] || stamped python "$(wanted_python)"; } &&
        choose_pins "$1" && pins_are_installed &&
        stamped extensions "$(checksums_of_sources)"
}

# An environment made by hand is used as it is if it fits.
venv_is_usable() {
    [ -x "$venv_python" ] && [ ! -e "$venv_unfinished" ] && supported "$(python_version "$venv_python")" &&
        "$venv_python" -m pip --version >/dev/null 2>&1 &&
        { [ -z "${PYTHON:-}" ] || [ "$(python_version "$venv_python")" = "$(python_version "$PYTHON")" ]; }
}

make_venv() {
    venv_is_usable && return
    say "making .venv with Python $(python_version "$base_python")"
    mkdir -p "$(dirname "$venv_unfinished")"
    : >"$venv_unfinished"
    "$base_python" -m venv --clear "$venv" || die "python -m venv failed; its output is above"
    rm "$venv_unfinished"
}

install_dependencies() {
    choose_pins "$1"
    pins_are_installed && return
    say "installing dependencies"
    "$venv_python" -m pip install --quiet --disable-pip-version-check --require-hashes "${pins[@]/#/--requirement=}" ||
        die "pip could not install the dependencies; its output is above"
    stamp "$pins_stamp" "$(checksum_of_pins)"
}

# Touches the sources whose checksum is not the stamped one: setuptools and Cython go by times, and
# an archive or a checkout may bring an older time with newer content.
touch_changed_sources() {
    local line
    printf '%s\n' "$1" | while IFS= read -r line; do
        if ! grep -qxF -- "$line" "$stamps/extensions" 2>/dev/null; then
            touch "$project_root/${line#* * }"
        fi
    done
}

build_extensions() {
    local sources unfinished="$stamps/build-unfinished" force=()
    sources=$(checksums_of_sources)
    stamped extensions "$sources" && return
    say "building the extensions (a minute or two the first time)"
    if [ -e "$unfinished" ]; then
        # A compiler that was killed leaves half a file with a fresh time.
        export CYTHON_FORCE_REGEN=1
        force=(--force)
    fi
    : >"$unfinished"
    touch_changed_sources "$sources"
    # ${force[@]+...}: the bash of macOS takes an empty array for an unset variable.
    (cd "$project_root" && "$venv_python" setup.py --quiet build_ext --inplace ${force[@]+"${force[@]}"}) >"$stamps/build.log" 2>&1 ||
        { cat "$stamps/build.log" >&2; die "the extensions could not be built; the compiler's output is above"; }
    rm "$unfinished"
    stamp extensions "$sources"
}

# Makes `import fastnode` and .venv/bin/fastnode work on the sources in place.  An editable install
# would do the same and compile every extension a second time; both paths here are relative, so that
# the project can be moved with its .venv.
link_package() {
    local packages
    packages=$("$venv_python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    [ -e "$packages/fastnode-source.pth" ] && [ -e "$venv/bin/fastnode" ] && return
    "$venv_python" -c 'import os, sys; print(os.path.relpath(sys.argv[1], sys.argv[2]))' \
        "$project_root/src" "$packages" >"$packages/fastnode-source.pth"
    printf '%s\n' '#!/bin/sh' 'exec "$(dirname "$(readlink -f "$0")")/python" -m fastnode "$@"' >"$venv/bin/fastnode"
    chmod +x "$venv/bin/fastnode"
}

prepare_environment() {
    if environment_is_ready "$1"; then
        compile_package
        return
    fi
    # One at a time: a second caller waits here and then finds everything done.  The lock is on this
    # very file, so nothing has to be created or cleaned up.
    if command -v flock >/dev/null; then
        exec 9<"${BASH_SOURCE[0]}"
        flock -n 9 || { say "waiting for another script that prepares .venv"; flock 9; }
    fi
    if ! environment_is_ready "$1"; then
        find_python
        require_venv_module "$base_python"
        require_compiler
        require_headers "$base_python"
        require_leveldb "$base_python"
        make_venv
        [ -z "${PYTHON:-}" ] || stamp python "$(wanted_python)"
        install_dependencies "$1"
        link_package
        build_extensions
    fi
    compile_package
    if command -v flock >/dev/null; then
        exec 9<&-
    fi
}

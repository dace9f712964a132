# Sourced by the other scripts: `prepare_environment run|test|bench` finds a Python, with which environment.py leaves a .venv
# in which fastnode is installed in place with its extensions built; $venv_python is its Python.  FASTNODE_VENV names
# another place than .venv.

project_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv="${FASTNODE_VENV:-$project_root/.venv}"
venv_python="$venv/bin/python"

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
python_version() { "$1" -I -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }

# Prints the command of the Python that prepares: PYTHON, the one of an environment that is there, or the first that fits.
find_python() {
    local candidate version seen="" candidates=("$venv_python" python3.12 python3.11 python3.13 python3 python)
    [ -z "${PYTHON:-}" ] || candidates=("$PYTHON")
    for candidate in "${candidates[@]}"; do
        version=$(python_version "$candidate") || continue
        case $version in 3.[0-9] | 3.10 | 2.*) seen="$seen, $candidate is $version" ;; *) echo "$candidate"; return ;; esac
    done
    die "no Python found that fits${PYTHON:+: PYTHON=$PYTHON}${seen:+ (${seen#, })}; fastnode needs Python 3.11 or newer" \
        "(set PYTHON=/path/to/python3.12 if it is not on the PATH)"
}

prepare_environment() {
    local python
    python=$(find_python) || exit 1
    "$python" -I "$project_root/scripts/environment.py" "$1" "$venv" || exit 1
}

# Becomes a module of tests/: it is found in the project, whatever the current directory has.
exec_test_module() { PYTHONPATH="$project_root${PYTHONPATH:+:$PYTHONPATH}" exec "$venv_python" -P -m "$@"; }

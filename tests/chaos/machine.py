"""What a machine lets us break: a network namespace and a small disk for each node. Needs root and Linux.

    namespaces   node N has the address 10.X.Y.N, on a bridge where clients have .254. A cut is a link that is down, or
                 a neighbour whose hardware address nobody has: what is sent is lost, and nobody is told
    disks        node N's log directory is ext4 in a file, on a loop device. Slow: mounted sync, and the writes of the
                 node's process are throttled by cgroup blkio. Full: another file takes what is left

Where something is not possible there is a reason instead, and the run goes on without its faults.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.interop.clusters import Place

NOBODY = "02:00:00:00:00:99"
PORT, CONTROLLER_PORT = 9092, 9093
HOST = 254
BLKIO = Path("/sys/fs/cgroup/blkio")
DISK_BYTES = 512 << 20


class Impossible(Exception):
    """The machine does not allow a fault; the message has the reason."""


def _run(*command: str | Path) -> str:
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Impossible(f"{command[0]}: {error}") from None
    if done.returncode:
        raise Impossible(f"{' '.join(map(str, command))}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


class Namespaces:
    """A network with a namespace for each node. Raises Impossible."""

    def __init__(self, nodes: Sequence[int]) -> None:
        pid = os.getpid()
        self.nodes = list(nodes)
        self._name, self._net = f"kch{pid}", f"10.{200 + pid // 250 % 50}.{pid % 250}"
        try:
            self._build()
        except Impossible:
            self.close()
            raise

    def _build(self) -> None:
        _run("ip", "link", "add", self._name, "type", "bridge")
        _run("ip", "addr", "add", f"{self._net}.{HOST}/24", "dev", self._name)
        _run("ip", "link", "set", self._name, "up")
        for node in self.nodes:
            name, link = self._namespace(node), self._link(node)
            _run("ip", "netns", "add", name)
            _run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
            _run("ip", "link", "set", link, "master", self._name, "up")
            _run("ip", "-n", name, "addr", "add", f"{self._net}.{node}/24", "dev", "eth0")
            _run("ip", "-n", name, "link", "set", "eth0", "up")
            _run("ip", "-n", name, "link", "set", "lo", "up")

    def close(self) -> None:
        """Take all of it away."""
        for node in self.nodes:
            with contextlib.suppress(Impossible):
                _run("ip", "netns", "del", self._namespace(node))
        with contextlib.suppress(Impossible):
            _run("ip", "link", "del", self._name)

    def _namespace(self, node: int) -> str:
        return f"{self._name}-{node}"

    def _link(self, node: int) -> str:
        return f"{self._name}v{node}"

    def places(self) -> list[Place]:
        """Where the nodes listen."""
        return [Place(f"{self._net}.{node}", PORT, CONTROLLER_PORT) for node in self.nodes]

    def enter(self, node: int) -> list[str]:
        """What a node's command begins with."""
        return ["ip", "netns", "exec", self._namespace(node)]

    # cuts

    def unplug(self, node: int) -> None:
        """Cut a node off from all others."""
        _run("ip", "link", "set", self._link(node), "down")

    def lose(self, sender: int, receiver: int) -> None:
        """What one node sends to another is lost, in this direction only."""
        _run("ip", "-n", self._namespace(sender), *self._neighbour(receiver))

    def lose_from_clients(self, receiver: int) -> None:
        """What clients send to a node is lost."""
        _run("ip", *self._neighbour(receiver, self._name))

    def _neighbour(self, node: int, device: str = "eth0") -> list[str]:
        return ["neigh", "replace", f"{self._net}.{node}", "lladdr", NOBODY, "dev", device, "nud", "permanent"]

    def heal(self) -> None:
        """Everybody hears everybody."""
        for node in self.nodes:
            _run("ip", "link", "set", self._link(node), "up")
            with contextlib.suppress(Impossible):  # there is none
                _run("ip", "neigh", "del", f"{self._net}.{node}", "dev", self._name)
            for other in self.nodes:
                if other != node:
                    with contextlib.suppress(Impossible):
                        _run("ip", "-n", self._namespace(node), "neigh", "del", f"{self._net}.{other}", "dev", "eth0")


class Disks:
    """A disk for each node's directory. Raises Impossible."""

    def __init__(self, directories: dict[int, Path], images: Path) -> None:
        self._directories, self._images = directories, images
        self._mounted: list[int] = []
        try:
            for node in directories:
                self._mount(node)
        except Impossible:
            self.close()
            raise

    def _mount(self, node: int) -> None:
        directory, image = self._directories[node], self._images / f"disk-{node}"
        directory.mkdir(parents=True, exist_ok=True)
        with image.open("wb") as file:
            file.truncate(DISK_BYTES)
        _run("mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", image)
        _run("mount", "-o", "loop", image, directory)
        self._mounted.append(node)
        shutil.rmtree(directory / "lost+found")

    def close(self) -> None:
        """Unmount, and forget what was on them."""
        for node in self._mounted:
            with contextlib.suppress(Impossible):
                _run("umount", "-l", self._directories[node])
            (self._images / f"disk-{node}").unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                self._group(node).rmdir()
        self._mounted.clear()

    def _group(self, node: int) -> Path:
        return BLKIO / f"kcli-chaos-{os.getpid()}-{node}"

    def why_not_slow(self) -> str | None:
        """Return why disks cannot be slow here; None where they can."""
        return None if (BLKIO / "blkio.throttle.write_bps_device").exists() else f"no cgroup v1 blkio at {BLKIO}"

    def slow(self, node: int, pid: int, bytes_per_s: int) -> None:
        """Limit the write rate of a process, which waits for each write."""
        directory = self._directories[node]
        device = directory.stat().st_dev
        self._group(node).mkdir(exist_ok=True)
        limit = f"{os.major(device)}:{os.minor(device)} {bytes_per_s}"
        (self._group(node) / "blkio.throttle.write_bps_device").write_text(limit)
        (self._group(node) / "cgroup.procs").write_text(str(pid))
        _run("mount", "-o", "remount,sync", directory)

    def fast(self, node: int) -> None:
        """No longer slow."""
        directory = self._directories[node]
        device = directory.stat().st_dev
        if self._group(node).exists():
            limit = f"{os.major(device)}:{os.minor(device)} 0"
            (self._group(node) / "blkio.throttle.write_bps_device").write_text(limit)
        _run("mount", "-o", "remount,async", directory)

    def fill(self, node: int) -> None:
        """Not a byte is left."""
        with (self._directories[node] / "filler").open("ab", buffering=0) as file, contextlib.suppress(OSError):
            free = os.statvfs(self._directories[node])
            os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_frsize)
            while True:
                file.write(bytes(4096))

    def free(self, node: int) -> None:
        """There is room again."""
        (self._directories[node] / "filler").unlink(missing_ok=True)


@contextlib.contextmanager
def machine(
    nodes: Sequence[int], directories: dict[int, Path], images: Path
) -> Iterator[tuple[Namespaces | str, Disks | str]]:
    """Return Namespaces and Disks, or in place of either the reason why it is not possible."""
    with contextlib.ExitStack() as stack:
        network: Namespaces | str
        disks: Disks | str
        try:
            network = Namespaces(nodes)
            stack.callback(network.close)
        except Impossible as impossible:
            network = str(impossible)
        try:
            disks = Disks(directories, images)
            stack.callback(disks.close)
        except Impossible as impossible:
            disks = str(impossible)
        yield network, disks

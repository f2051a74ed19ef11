"""The guard: a small process between loadframe and one node, which lets the node not outlive whoever started it.

It is the node's parent. Its standard input is the lifeline: when that breaks, because loadframe was killed, crashed or
lost its terminal, the guard stops the node, removes its control groups, its scratch folders and its link, and leaves.
The node in turn is killed by the kernel should the guard be killed. What the node has started ends with it, also when
the node ends by itself. Being the parent, the guard never signals a process id that now belongs to another process.

Run as a file by an isolated interpreter, so it imports the standard library only. It reads one JSON line:

    {"argv", "environment", "folder", "user": uid or null, "group": gid or null, "cores": [number] or null,
     "groups": [folder], "above": [folder], "scratch": [folder], "shared": [folder], "grace": s, "undo": [argv],
     "network": {"ip": program, "bridge", "link", "address": with its prefix's length, "hardware": address}
     or null}

Its standard error is the node's log. It answers with lines `{"pid": n}` or `{"error": text}`, later `{"exit": status}`.
After a line `keep` it watches the lifeline no more and serves on as the node's parent until SIGTERM or until the node
is gone.
"""

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import resource
import select
import shutil
import signal
import time
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
#: Seconds that processes which a node leaves behind are killed for; those that do not end by then never will.
_LEFTOVERS = 5.0
_CLONE_NEWNET = 0x40000000
#: Whoever makes or removes bridges holds a lock on the network that they are in.
_NETWORK = "/proc/self/ns/net"
#: Open files that some servers want before they start.
_FILES = 65_535
#: What a node calls its end of its link.
NODE_END = "eth0"


def main() -> None:
    """Start the node and wait: for its end, for the lifeline's, or for SIGTERM."""
    # Neither Ctrl-C nor a closed terminal is for us: what they end is loadframe, and we see that by the lifeline.
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(ignored, signal.SIG_IGN)
    wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(wake_write)
    asked = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append(True))
    signal.signal(signal.SIGCHLD, lambda *_: None)

    order = json.loads(_read_line())
    # What the node's processes leave behind becomes ours, wherever it has moved to.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    pid = _start(order)
    if pid is None:
        _clean(order)
        return
    status = None
    lifeline = True
    while not asked:
        if status is None:
            status = _reap(order, pid)
            if status is not None:
                _say({"exit": status})
        if status is not None and not lifeline:
            break
        # When the node has ended by itself, its folder stays until loadframe has read the log and lets go.
        ready, _, _ = select.select([wake_read, *([0] if lifeline else [])], [], [])
        if wake_read in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(wake_read, 512)
        if 0 in ready:
            if os.read(0, 64).strip() != b"keep":
                break
            lifeline = False
    if status is None:
        _stop(order, pid)
    _clean(order)


def _read_line() -> bytes:
    """Read up to a line's end byte by byte: a buffer would swallow what is for the lifeline."""
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            break
        line += byte
    return bytes(line)


def _start(order: dict[str, Any]) -> int | None:
    """Fork, enter the control groups, change the user and execute; None when that failed, and it was said."""
    trouble_read, trouble_write = os.pipe2(os.O_CLOEXEC)
    guard = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            for group in order["groups"]:
                descriptor = os.open(Path(group) / "cgroup.procs", os.O_WRONLY)
                os.write(descriptor, str(os.getpid()).encode())
                os.close(descriptor)
            if order["cores"]:
                os.sched_setaffinity(0, order["cores"])
            if order["network"]:
                _move_out(order["network"], guard)
            nothing = os.open(os.devnull, os.O_RDONLY)
            _allow_files()
            if order["user"] is not None:
                os.setgroups([])
                os.setgid(order["group"])
                os.setuid(order["user"])
            # After setuid, which clears it. The guard has one thread, whose death is the guard's.
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != guard:
                os._exit(1)
            for restored in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGTERM, signal.SIGCHLD):
                signal.signal(restored, signal.SIG_DFL)
            os.chdir(order["folder"])
            os.dup2(nothing, 0)
            os.dup2(2, 1)
            os.execve(order["argv"][0], order["argv"], order["environment"])
        except OSError as error:
            os.write(trouble_write, f"{error.strerror}: {error.filename or order['argv'][0]}".encode())
        finally:
            os._exit(127)
    os.close(trouble_write)
    trouble = os.read(trouble_read, 4096)
    os.close(trouble_read)
    if trouble:
        os.waitpid(pid, 0)
        _say({"error": trouble.decode()})
        return None
    _say({"pid": pid})
    return pid


def _allow_files() -> None:
    """Let the node open as many files as anybody lets us, and as many as servers ask for where we may decide it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= most < _FILES:
        # Not allowed without CAP_SYS_RESOURCE.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES, _FILES))
            return
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _move_out(network: dict[str, str], guard: int) -> None:
    """Go into a network namespace of our own, which ends with its last process, and plug it into the bridge.

    Its only way out is a pair of linked interfaces, of which one end stays outside, where the guard is.
    """
    outside = os.open(_NETWORK, os.O_RDONLY | os.O_CLOEXEC)
    _check(ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET), "a network of its own")
    inside = os.open(_NETWORK, os.O_RDONLY | os.O_CLOEXEC)
    link, bridge = network["link"], network["bridge"]
    _ip(
        network,
        "link set lo up",
        f"link add {NODE_END} address {network['hardware']} type veth peer name {link} netns {guard}",
        f"address add {network['address']} dev {NODE_END}",
        f"link set {NODE_END} up",
    )
    _enter(outside)
    _ip(network, f"link set {link} master {bridge} up")
    _enter(inside)


def _enter(namespace: int) -> None:
    _check(ctypes.CDLL(None, use_errno=True).setns(namespace, _CLONE_NEWNET), "its network")


def _check(failed: int, what: str) -> None:
    if failed:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), what)


def _run(command: list[str]) -> None:
    # Here and not above: most nodes need it neither now nor when they end.
    import subprocess

    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(command, capture_output=True, timeout=30, check=False)


def _ip(network: dict[str, str], *commands: str) -> None:
    # Here and not above: most nodes need it neither now nor when they end.
    import subprocess

    done = subprocess.run(
        [network["ip"], "-batch", "-"], input="\n".join(commands), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise OSError(errno.EIO, done.stderr.strip().splitlines()[0] if done.stderr else "failed", network["ip"])


def _reap(order: dict[str, Any], pid: int, flags: int = os.WNOHANG) -> int | None:
    """Return the node's status if it has ended, having ended what it left behind; None while it runs.

    Other processes that have become our children, because those that started them ended, are collected on the way.
    """
    # Not collected yet: until then its number, and that of its process group, cannot be given to another process.
    if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | flags) is None:
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and ended.si_pid != pid:
            os.waitpid(ended.si_pid, 0)
        return None
    _end_rest(order, pid)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code if code >= 0 else 128 - code


def _stop(order: dict[str, Any], pid: int) -> None:
    """Ask the node to stop, and after the grace kill it, with all that it started."""
    os.kill(pid, order["stop_signal"])
    end = time.monotonic() + order["grace"]
    status = _reap(order, pid)
    while status is None and time.monotonic() < end:
        time.sleep(0.02)
        status = _reap(order, pid)
    if status is None:
        os.kill(pid, signal.SIGKILL)
        status = _reap(order, pid, 0)
    _say({"exit": status})


def _end_rest(order: dict[str, Any], pid: int) -> None:
    """Kill whatever a node that has ended has left: its session, its control groups, and its other descendants."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    for group in order["groups"]:
        _kill_group(Path(group))
    # As a subreaper we are the parent of all that is left; of a child that ends, its children come to us.
    end = time.monotonic() + _LEFTOVERS
    while (left := _children() - {pid}) and time.monotonic() < end:
        for child in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        for child in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, os.WNOHANG)
        time.sleep(0.005)


def _kill_group(folder: Path) -> None:
    """Kill all processes of a control group, at once where the kernel can (version 2, from Linux 5.14)."""
    try:
        descriptor = os.open(folder / "cgroup.kill", os.O_WRONLY)
    except OSError:
        pass
    else:
        with contextlib.suppress(OSError):
            os.write(descriptor, b"1")
        os.close(descriptor)
        return
    # One that forks meanwhile is met by the next round; a killed one cannot.
    for _ in range(100):
        try:
            pids = [int(line) for line in (folder / "cgroup.procs").read_text().split()]
        except OSError:
            return
        if not pids:
            return
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def _children() -> set[int]:
    """Return our child processes, those among them that have ended and were not collected, too (proc(5))."""
    ours, children = os.getpid(), set()
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # The command's name may hold spaces and parentheses; the fields count from behind its last one.
                fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == ours:
                    children.add(int(entry.name))
    return children


def _clean(order: dict[str, Any]) -> None:
    for command in order["undo"]:
        _run(command)
    if order["network"]:
        _unplug(order["network"])
    for group in [*order["groups"], *order["above"]]:
        _remove_group(Path(group))
    for folder in order["scratch"]:
        shutil.rmtree(folder, ignore_errors=True)
        # What the node and its peers shared is left there by those that were killed.
        shared = {Path(path) for path in order["shared"]}
        with contextlib.suppress(OSError):
            left = set(Path(folder).parent.iterdir())
            for leftover in left if left <= shared else ():
                shutil.rmtree(leftover, ignore_errors=True)
        # The folder that it shared with its peers goes with the last of them.
        with contextlib.suppress(OSError):
            Path(folder).parent.rmdir()


def _remove_group(folder: Path) -> None:
    """Remove a control group; one in which other processes have groups is left to the last of them."""
    for _ in range(100):
        try:
            folder.rmdir()
        except OSError as error:
            # The kernel takes a moment to see that a group is empty.
            if error.errno == errno.EBUSY and not any(entry.is_dir() for entry in os.scandir(folder)):
                time.sleep(0.02)
                continue
        break


def _unplug(network: dict[str, str]) -> None:
    """Remove the link, if the kernel has not yet, and with the last link the bridge."""
    with contextlib.suppress(OSError):
        _ip(network, f"link delete {network['link']}")
    descriptor = os.open(_NETWORK, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with contextlib.suppress(OSError):
        if not any(Path("/sys/class/net", network["bridge"], "brif").iterdir()):
            _ip(network, f"link delete {network['bridge']}")
    os.close(descriptor)


def _say(message: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    main()

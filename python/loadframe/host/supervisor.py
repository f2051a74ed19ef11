"""Supervisor: parent process of one node. It stops the node and cleans up when loadframe ends.

Its standard input is a pipe from loadframe. If the pipe closes because loadframe was killed, crashed or lost its
terminal, the supervisor stops the node, removes its control groups, scratch folders and link, and exits. If the
supervisor is killed, the kernel kills the node. Descendants of the node are killed when the node ends. A parent never
signals a reused process id, because the id stays taken until the parent collects it.

It runs as a file in an isolated interpreter, so it imports only the standard library. It reads one JSON line:

    {"argv", "environment", "folder", "user": uid or null, "group": gid or null, "cores": [number] or null,
     "groups": [folder], "above": [folder], "scratch": [folder], "shared": [folder], "undo": [argv],
     "mark": [name of a file in the scratch folders, its text] or null,
     "stop_signal": number, "grace": s before SIGKILL,
     "network": {"ip": program, "bridge", "link", "address": with prefix length, "hardware": address} or null}

Its standard error is the node's log. It writes a line `{"pid": n}` or `{"error": text}`, later `{"exit": status}`.
After the input line `keep`, it ignores the end of the pipe and runs until SIGTERM or until the node ends. In functions,
`order` is the JSON object that it read, and `pid` the process id of the node.
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
#: Seconds in which leftover processes of a node are killed; processes in uninterruptible sleep can survive it.
_LEFTOVERS = 5.0
_CLONE_NEWNET = 0x40000000
#: Processes lock this file while they create or remove bridges.
_NETWORK = "/proc/self/ns/net"
#: Limit of open files that some servers require.
_FILES = 65_535
#: Interface name of the link inside the node's namespace.
NODE_END = "eth0"


def main() -> None:
    """Start the node and wait until the pipe closes or SIGTERM arrives; then stop the node and clean up.

    If the node ends, writes its exit status, and waits for the end of the pipe before it cleans up. After the input
    line `keep`, the end of the node counts instead of the end of the pipe.
    """
    # Ctrl-C and a closed terminal are for loadframe. If it ends, the pipe closes.
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(ignored, signal.SIG_IGN)
    wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(wake_write)
    stop_requests = []
    signal.signal(signal.SIGTERM, lambda *_: stop_requests.append(True))
    signal.signal(signal.SIGCHLD, lambda *_: None)

    order = json.loads(_read_line())
    # Orphaned descendants of the node become our children, also from other sessions.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    pid = _start(order)
    if pid is None:
        _clean(order)
        return
    status = None
    pipe_open = True
    while not stop_requests:
        if status is None:
            status = _reap(order, pid)
            if status is not None:
                _write({"exit": status})
        if status is not None and not pipe_open:
            break
        # After the node ends, its folder stays until loadframe has read the log and closes the pipe.
        ready, _, _ = select.select([wake_read, *([0] if pipe_open else [])], [], [])
        if wake_read in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(wake_read, 512)
        if 0 in ready:
            if os.read(0, 64).strip() != b"keep":
                break
            pipe_open = False
    if status is None:
        _stop(order, pid)
    _clean(order)


def _read_line() -> bytes:
    """Return a line from standard input, with its newline; without it if the input ends.

    Reads byte by byte: a buffer could swallow later lines.
    """
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            break
        line += byte
    return bytes(line)


def _start(order: dict[str, Any]) -> int | None:
    """Start the node: fork, enter its control groups, change the user and execute the command; return its process id.

    `order` is the input of the supervisor; the `index` of the link is added to its `network`. Writes the process id, or
    the error, to standard output; returns None after an error.
    """
    trouble_read, trouble_write = os.pipe2(os.O_CLOEXEC)
    supervisor = os.getpid()
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
                _move_out(order["network"], supervisor)
            nothing = os.open(os.devnull, os.O_RDONLY)
            _allow_files()
            if order["user"] is not None:
                os.setgroups([])
                os.setgid(order["group"])
                os.setuid(order["user"])
            # After setuid, which clears the setting. It applies to the thread that forked; the supervisor has only one.
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != supervisor:
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
    # Also after a failure: it can occur after the link was created. Before the answer: until then, the starting command
    # holds the lock of the links.
    if order["network"]:
        order["network"]["index"] = _index(order["network"]["link"])
    if trouble:
        os.waitpid(pid, 0)
        _write({"error": trouble.decode()})
        return None
    _write({"pid": pid})
    return pid


def _allow_files() -> None:
    """Raise the limit of open files to the hard limit; if that is below 65,535, both to 65,535 where permitted."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= most < _FILES:
        # Not allowed without CAP_SYS_RESOURCE.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES, _FILES))
            return
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _move_out(network: dict[str, Any], supervisor: int) -> None:
    """Enter a new network namespace, which ends with its last process, and connect it to the bridge.

    `network` is that of the supervisor's input. The connection is a pair of linked interfaces; one end stays in the
    namespace of the process `supervisor`. Removes the link of an ended process with the same address. OSError if a step
    fails.
    """
    # The kernel removes the link of an ended process with a delay, or not, if a connection holds its namespace.
    if _index(network["link"]) is not None:
        with contextlib.suppress(OSError):
            _ip(network, f"link delete {network['link']}")
    outside = os.open(_NETWORK, os.O_RDONLY | os.O_CLOEXEC)
    _check(ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET), "a network namespace")
    inside = os.open(_NETWORK, os.O_RDONLY | os.O_CLOEXEC)
    link, bridge = network["link"], network["bridge"]
    _ip(
        network,
        "link set lo up",
        f"link add {NODE_END} address {network['hardware']} type veth peer name {link} netns {supervisor}",
        f"address add {network['address']} dev {NODE_END}",
        f"link set {NODE_END} up",
    )
    _enter(outside)
    _ip(network, f"link set {link} master {bridge} up")
    _enter(inside)


def _enter(namespace: int) -> None:
    """Enter the network namespace of a file descriptor; OSError if that fails."""
    _check(ctypes.CDLL(None, use_errno=True).setns(namespace, _CLONE_NEWNET), "the network namespace")


def _check(failed: int, what: str) -> None:
    """Raise OSError, with `what` instead of a file name, if `failed`, the result of a call of libc, is not 0."""
    if failed:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), what)


def _run(command: list[str]) -> None:
    """Run a command for 30 s at most; ignore its failure."""
    # Here and not above: most nodes need it neither now nor when they end.
    import subprocess

    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(command, capture_output=True, timeout=30, check=False)


def _ip(network: dict[str, Any], *commands: str) -> None:
    """Execute commands of `ip` as one batch; OSError if one fails."""
    # Here and not above: most nodes need it neither now nor when they end.
    import subprocess

    done = subprocess.run(
        [network["ip"], "-batch", "-"], input="\n".join(commands), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise OSError(errno.EIO, done.stderr.strip().splitlines()[0] if done.stderr else "failed", network["ip"])


def _reap(order: dict[str, Any], pid: int, flags: int = os.WNOHANG) -> int | None:
    """If the node has ended, kill its leftover processes and return its exit status; None while it runs.

    The status is 128 + signal if a signal ended it. With `flags` 0 instead of WNOHANG, wait for its end. Side effect:
    collects other children, which are orphaned descendants of the node.
    """
    # WNOWAIT: as long as the node is not collected, its process id and process group id cannot be reused.
    if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | flags) is None:
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and ended.si_pid != pid:
            os.waitpid(ended.si_pid, 0)
        return None
    _kill_leftovers(order, pid)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code if code >= 0 else 128 - code


def _stop(order: dict[str, Any], pid: int) -> None:
    """Send the `stop_signal`, and SIGKILL after `grace` s; write the exit status of the node to standard output."""
    os.kill(pid, order["stop_signal"])
    end = time.monotonic() + order["grace"]
    status = _reap(order, pid)
    while status is None and time.monotonic() < end:
        time.sleep(0.02)
        status = _reap(order, pid)
    if status is None:
        os.kill(pid, signal.SIGKILL)
        status = _reap(order, pid, 0)
    _write({"exit": status})


def _kill_leftovers(order: dict[str, Any], pid: int) -> None:
    """Kill the leftover processes of a node that has ended: its session, control groups and other descendants.

    Gives up after 5 s.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    for group in order["groups"]:
        _kill_group(Path(group))
    # As a subreaper we are the parent of all of them; the children of an ended child become ours.
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
    """Kill all processes of a control group, in one step if the kernel supports it (version 2, Linux 5.14).

    Otherwise one by one, in up to 100 rounds. A missing group is ignored.
    """
    try:
        descriptor = os.open(folder / "cgroup.kill", os.O_WRONLY)
    except OSError:
        pass
    else:
        with contextlib.suppress(OSError):
            os.write(descriptor, b"1")
        os.close(descriptor)
        return
    # The next round kills children that were forked meanwhile.
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
    """Return the ids of our child processes, including zombies (proc(5))."""
    ours, children = os.getpid(), set()
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # As `procfs.stat_fields`, which cannot be imported here: the second field may contain spaces and
                # parentheses.
                fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == ours:
                    children.add(int(entry.name))
    return children


def _clean(order: dict[str, Any]) -> None:
    """Undo the start of a node: run the undo commands, remove its network, control groups and scratch folders.

    The last peer also removes the folders that peers share. A folder stays if it cannot be removed, or if a later start
    of the node has changed its mark: the node runs in it again.
    """
    for command in order["undo"]:
        _run(command)
    if order["network"]:
        _unplug(order["network"])
    for group in [*order["groups"], *order["above"]]:
        _remove_group(Path(group))
    for folder in order["scratch"]:
        if _used_again(folder, order["mark"]):
            continue
        shutil.rmtree(folder, ignore_errors=True)
        # Remove folders that peers share once only they are left: peers that were killed did not remove them.
        shared = {Path(path) for path in order["shared"]}
        with contextlib.suppress(OSError):
            left = set(Path(folder).parent.iterdir())
            for leftover in left if left <= shared else ():
                shutil.rmtree(leftover, ignore_errors=True)
        # The last peer removes the common parent folder.
        with contextlib.suppress(OSError):
            Path(folder).parent.rmdir()


def _used_again(folder: str, mark: list[str] | None) -> bool:
    """Return whether a folder has another mark than the node of this supervisor.

    `mark` is [file name, text] of this node. False without a mark, or if the file cannot be read.
    """
    try:
        return mark is not None and Path(folder, mark[0]).read_text() != mark[1]
    except (OSError, UnicodeDecodeError):
        return False


def _remove_group(folder: Path) -> None:
    """Remove a control group, unless it contains groups of other processes; the last of them removes it.

    Waits up to 2 s for the kernel to notice that it is empty; errors are ignored.
    """
    for _ in range(100):
        try:
            folder.rmdir()
        except OSError as error:
            # The kernel needs time to notice that a group is empty.
            if error.errno == errno.EBUSY and not any(entry.is_dir() for entry in os.scandir(folder)):
                time.sleep(0.02)
                continue
        break


def _index(link: str) -> str | None:
    """Return the number of an interface as text, or None if it does not exist; the kernel does not use it again."""
    try:
        return Path("/sys/class/net", link, "ifindex").read_text()
    except OSError:
        return None


def _unplug(network: dict[str, Any]) -> None:
    """Remove the link if the kernel has not done so, and the bridge after its last link.

    A link of the same name that a later start of the node created stays.
    """
    descriptor = os.open(_NETWORK, os.O_RDONLY)
    # Starts hold this lock, so no link is created between the check and the removal.
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with contextlib.suppress(OSError):
        if network.get("index") is not None and _index(network["link"]) == network["index"]:
            _ip(network, f"link delete {network['link']}")
    with contextlib.suppress(OSError):
        if not any(Path("/sys/class/net", network["bridge"], "brif").iterdir()):
            _ip(network, f"link delete {network['bridge']}")
    os.close(descriptor)


def _write(message: dict[str, Any]) -> None:
    """Write a message as a JSON line to standard output; ignore a closed pipe."""
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    main()

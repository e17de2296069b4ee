"""The table of attacks: a few lines each, by name, with what must happen. A new way to do harm gets its row.

REFUSED: the lines must end in an exception of ERRORS, in a process of the sandbox, in which `call(name, ...)` calls a
function of libc and `raw(name, ...)` a system call; where a return is no success, the lines raise themselves.
STOPPED and UNLOADABLE: a move, or the import, must end with the line that is given.
"""

from opponents.sandbox.syscall_table import ALLOWED, MACHINES, RULES, UNKNOWN_TO_LIBC
from opponents.sandbox.syscall_table import REFUSED as REFUSED_CALLS

CPU_SECONDS, WAIT_SECONDS = 0.15, 3
ERRORS = "(OSError, MemoryError, RuntimeError, ValueError, KeyError, ImportError)"
LOOP = "while True: pass"
EVERY_FILE = "for n in range(3, 50):\n    try:\n        {}\n    except OSError: pass\n"
MEET = "if os.path.exists('{0}'): return [[1, 0, 0, 0]]\nopen('{0}', 'x').close()\nraise OSError"
SLOW_MOVE, DISTURBED = f"took more than {CPU_SECONDS} s of CPU time and was stopped", "closed or disturbed its pipe"
WAITED = f"gave no answer for {WAIT_SECONDS} s and was stopped"

FILES = {
    "read a key": "open(KEY).read()",
    "read a key by a link": "open('link').read()",
    "read a key by a linked folder": "open('folder_link/key').read()",
    "read a key by going up": "open('/submission' + '/..' * 9 + KEY).read()",
    "read the machine's users": "open('/etc/passwd').read()",
    "read passwords": "open('/etc/shadow').read()",
    "read the machine's name": "open('/etc/hostname').read()",
    "list a home folder": "os.listdir(os.path.dirname(KEY))",
    "list homes": "os.listdir('/home')",
    "list root's home": "os.listdir('/root/.ssh')",
    "list settings": "os.listdir('/etc/ssl')",
    "list logs": "os.listdir('/var/log')",
    "list the kernel": "os.listdir('/boot')",
    "list control groups": "os.listdir('/sys/fs/cgroup')",
    "see disks": "open('/dev/vda', 'rb').read(1)",
    "see the kernel's messages": "open('/dev/kmsg', 'rb').read(1)",
    "see memory": "open('/dev/mem', 'rb').read(1)",
    "a terminal": "open('/dev/tty', 'wb')",
    "a new terminal": "os.openpty()",
    "a virtual machine": "os.open('/dev/kvm', os.O_RDWR)",
    "a network device": "os.open('/dev/net/tun', os.O_RDWR)",
    "a file system of its own": "os.open('/dev/fuse', os.O_RDWR)",
    "memory without an owner": "os.open('/dev/zero', os.O_RDWR)",
    "the container's socket": "os.stat('/run/docker.sock')",
    "write beside": "open(os.path.join(FOLDER, 'beside.txt'), 'w')",
    "write outside": "open(os.path.join(os.path.dirname(KEY), 'new.txt'), 'w')",
    "write into the root folder": "open('/new.txt', 'w')",
    "make a folder in the root folder": "os.mkdir('/new')",
    "write packages": "open(os.path.join(os.path.dirname(os.__file__), 'site.py'), 'a')",
    "a program for the next start": "open([p for p in sys.path if p.endswith('-packages')][0] + '/x.pth', 'w')",
    "write libraries": "open('/usr/lib/new.so', 'wb')",
    "write itself": "open(__file__, 'a')",
    "cut itself": "os.truncate(__file__, 0)",
    "bytecode beside it": "os.mkdir(os.path.join(FOLDER, '__pycache__'))",
    "change modes": "os.chmod(__file__, 0o777)",
    "change times": "os.utime(__file__)",
    "change owners": "os.chown(__file__, 0, 0)",
    "attributes": "os.setxattr(__file__, 'user.x', b'x')",
    "remove itself": "os.remove(__file__)",
    "rename itself": "os.rename(__file__, FOLDER + '/x.py')",
    "link itself": "os.link(__file__, FOLDER + '/x.py')",
    "link itself to the scratch folder": "os.link(__file__, '/scratch/x.py')",
    "a device": "os.mknod('/scratch/disk', 0o60600, os.makedev(254, 0))",
    "a pipe with a name": "os.mkfifo('/scratch/pipe')",
    "a library of its own": (
        "import shutil\nfound = [n for n in sorted(os.listdir(os.path.dirname(__import__('_ctypes').__file__)))\n"
        "         if n.startswith('_ctypes.')]\n"
        "shutil.copyfile(os.path.join(os.path.dirname(__import__('_ctypes').__file__), found[0]), '/scratch/x.so')\n"
        "ctypes.CDLL('/scratch/x.so')"
    ),
    "code in the scratch folder": (
        "file = os.open('/scratch/code', os.O_RDWR | os.O_CREAT)\nos.write(file, bytes(4096))\n"
        "mmap.mmap(file, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC)"
    ),
    "open folders of the host": (
        "import stat\n"
        "for n in range(256):\n    try:\n        if stat.S_ISDIR(os.fstat(n).st_mode): return [[1, 0, 0, 0]]\n"
        "    except OSError: pass\nraise OSError"
    ),
    "open files of the host": (
        "found = []\nfor n in range(3, 1024):\n    try:\n        os.fstat(n)\n        found.append(n)\n"
        "    except OSError: pass\nif len(found) == 1: raise OSError  # its channel"
    ),
    "files by handles": "raw('name_to_handle_at', -100, b'/', 0, 0, 0)",
    "where it really lies": "raw('statmount', 0, 0, 0, 0)",
    "all mounts": "raw('listmount', 0, 0, 0, 0)",
    "watch packages": "raw('inotify_init1', 0)",
    "watch everything": "raw('fanotify_init', 0, 0)",
    "watch a folder": "fcntl.fcntl(os.open('/usr/lib', os.O_RDONLY), fcntl.F_NOTIFY, 1)",
    "hold up readers by a lease": "fcntl.fcntl(os.open(__file__, os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_RDLCK)",
    "hold up writers by a lease": "fcntl.fcntl(os.open(__file__, os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_WRLCK)",
    "lock a file": "fcntl.flock(os.open(__file__, os.O_RDONLY), fcntl.LOCK_EX)",
    "lock a part of a file": "fcntl.lockf(os.open(__file__, os.O_RDONLY), fcntl.LOCK_SH)",
    "flush all disks": "raw('sync')",
    # Every match finds its scratch folder empty.
    "meet in the scratch folder": MEET.format("/scratch/meet"),
    "meet in shared memory": MEET.format("/dev/shm/meet"),
    "meet in the folder of temporary files": MEET.format("/tmp/meet"),
}

PROCESSES = {
    "kill the parent": "os.kill(os.getppid(), signal.SIGKILL)",
    "kill everybody": "os.kill(-1, signal.SIGKILL)",
    "kill the group": "os.killpg(0, signal.SIGKILL)",
    "kill the next process": "os.kill(os.getpid() + 1, signal.SIGKILL)",
    "kill the one before": "os.kill(os.getpid() - 1, signal.SIGKILL)",
    "ask for the parent": "os.kill(1, 0)",
    "stop the parent": "os.kill(1, signal.SIGSTOP)",
    "kill a thread of the parent": "raw('tgkill', 1, 1, 9)",
    "kill any thread": "raw('tkill', 1, 9)",
    "a signal with a value": "raw('rt_sigqueueinfo', 1, 9, bytes(128))",
    "a signal by a handle": "raw('pidfd_open', 1, 0)",
    "signals by a file": "fcntl.fcntl(0, fcntl.F_SETOWN, os.getppid())",
    "another signal by a file": "fcntl.fcntl(0, 10, 9)",
    "trace the parent": "call('ptrace', 16, os.getppid(), 0, 0)",
    "be traced": "call('ptrace', 0, 0, 0, 0)",
    "a debugger's memory": "call('process_vm_readv', 1, None, 0, None, 0, 0)",
    "a debugger's writing": "call('process_vm_writev', 1, None, 0, None, 0, 0)",
    "read the parent's memory": "open(f'/proc/{os.getppid()}/mem', 'rb').read(1)",
    "read the parent's variables": "open(f'/proc/{os.getppid()}/environ', 'rb').read(1)",
    "read its own memory as a file": "open('/proc/self/mem', 'rb').read(1)",
    "who handles crashes": "open('/proc/sys/kernel/core_pattern', 'w')",
    "see processes": "if not [name for name in os.listdir('/proc') if name.isdigit()]: raise OSError",
    "see a secret variable": "os.environ['SECRET']",
    "see a secret variable in memory": "if libc.getenv(b'SECRET') == 0: raise OSError",
    "fork": "os.fork()",
    "fork bomb": "while True: os.fork()",
    "fork by hand": "raw('clone', 17, 0, 0, 0, 0)",
    "fork by the new call": "raw('clone3', bytes(88), 88)",
    "fork with a terminal": "import pty\npty.fork()",
    "daemon": "subprocess.Popen(['/bin/sleep', '1000'], start_new_session=True)",
    "a shell": "if os.system('true') != 0: raise OSError",
    "spawn": "os.posix_spawn('/usr/bin/true', ['true'], {})",
    "processes of Python": "import multiprocessing\nmultiprocessing.get_context('fork').Process(target=print).start()",
    "exec": "os.execv(sys.executable, [sys.executable])",
    "exec by a number": "raw('execveat', 3, b'', 0, 0, 0x1000)",
    "leave the session": "os.setsid()",
    "leave the group": "os.setpgid(0, 0)",
    "outlive the parent": "call('prctl', 1, ctypes.c_ulong(0), 0, 0, 0)",
    "adopt orphans": "call('prctl', 36, ctypes.c_ulong(1), 0, 0, 0)",
    "be dumped": "call('prctl', 4, ctypes.c_ulong(1), 0, 0, 0)",
    "let others trace it": "call('prctl', 0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)",
    "another filter": "call('prctl', 22, ctypes.c_ulong(2), 0, 0, 0)",
    "another filter by its own call": "raw('seccomp', 1, 0, 0)",
    "greater priority": "os.nice(-10)",
    "real time": "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))",
    "priority of the disk": "raw('ioprio_set', 1, 0, 0)",
    "cores of the parent": "os.sched_setaffinity(1, {0})",
    "limits of the parent": "resource.prlimit(1, resource.RLIMIT_CPU, (1, 1))",
    "more memory": "resource.setrlimit(resource.RLIMIT_AS, (-1, -1))",
    "more processes": "resource.setrlimit(resource.RLIMIT_NPROC, (-1, -1))",
    "more files": "resource.setrlimit(resource.RLIMIT_NOFILE, (99999, 99999))",
    "more time": "resource.setrlimit(resource.RLIMIT_CPU, (-1, -1))",
    "compare processes": "raw('kcmp', 1, 1, 0, 0, 0)",
    "the host's frames": (
        "frame, names = sys._getframe(), []\nwhile frame:\n    names.append(frame.f_code.co_name)\n"
        "    frame = frame.f_back\nif not {'main', '_serve', '_start'} & {*names}: raise OSError"
    ),
    "our packages": "import opponents.sandbox.process",
    "our packages, loaded": "sys.modules['opponents.sandbox.host']",
    "our command line": "if '-c' not in sys.orig_argv: raise OSError",
}

NETWORK = {
    "internet": "socket.create_connection(('1.1.1.1', 53), 1)",
    "own network": "socket.create_connection(('127.0.0.1', 22), 1)",
    "a name": "socket.getaddrinfo('example.com', 80)",
    "local sockets": "socket.socket(socket.AF_UNIX).connect('/run/dbus/system_bus_socket')",
    "the new internet": "socket.socket(socket.AF_INET6)",
    "the kernel's socket": "socket.socket(16, socket.SOCK_RAW, 0)",
    "raw packets": "socket.socket(17, socket.SOCK_RAW)",
    "ciphers of the kernel": "socket.socket(38, socket.SOCK_SEQPACKET)",
    "the machine around it": "socket.socket(40, socket.SOCK_STREAM)",
    "interfaces": "socket.if_nameindex()",
    "a module of the kernel by a pair": "raw('socketpair', 30, 1, 0, bytes(8))",
    "a name among matches": "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].bind('\\0meet')",
    "a pair made loose": "raw('connect', socket.socketpair(1, socket.SOCK_DGRAM)[0].fileno(), bytes(2), 2)",
    "a letter with an address": "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b'x', '\\0meet')",
    "a message with an address": "socket.socketpair(1, socket.SOCK_DGRAM)[0].sendmsg([b'x'], [], 0, '\\0meet')",
    "files in a message": "socket.send_fds(socket.socketpair()[0], [b'x'], [0])",
    "files from a message": "socket.recv_fds(socket.socketpair()[0], 1, 1)",
    "listen at a pair": "socket.socketpair()[0].listen()",
    "whom it talks to": "socket.socketpair()[0].getsockopt(socket.SOL_SOCKET, 17, 12)",
    "room in a socket": "socket.socketpair()[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 30)",
    "many messages": "raw('sendmmsg', 3, 0, 0, 0)",
}

RIGHTS = {
    "become root": "os.setuid(0)",
    "become another": "os.setresuid(1000, 1000, 1000)",
    "another group": "os.setgid(0)",
    "other groups": "os.setgroups([0])",
    "rights back": "raw('capset', bytes(8), bytes(24))",
    "mount": "call('mount', b'tmpfs', b'/submission', b'tmpfs', 0, None)",
    "remount": "call('mount', None, b'/submission', None, 32 | 4096, None)",
    "unmount": "call('umount2', b'/submission', 2)",
    "mount by the new calls": "raw('fsopen', b'tmpfs', 0)",
    "a copy of mounts": "raw('open_tree', -100, b'/', 1)",
    "change mounts": "raw('mount_setattr', -100, b'/', 0, bytes(32), 32)",
    "new namespaces": "call('unshare', 0x10000000)",
    "new mounts": "call('unshare', 0x20000)",
    "a new network": "call('unshare', 0x40000000)",
    "another's namespace": "call('setns', 0, 0)",
    "other root": "os.chroot('/scratch')",
    "pivot": "raw('pivot_root', b'.', b'.')",
    "a name for the machine": "call('sethostname', b'x', 1)",
    "another time": "time.clock_settime(time.CLOCK_REALTIME, 0)",
    "restart the machine": "raw('reboot', 0xFEE1DEAD, 672274793, 0, 0)",
    "a module of the kernel": "raw('init_module', 0, 0, b'')",
    "another kernel": "raw('kexec_load', 0, 0, 0, 0)",
    "the kernel's log": "raw('syslog', 3, 0, 0)",
    "programs in the kernel": "raw('bpf', 0, 0, 0)",
    "counters of the processor": "raw('perf_event_open', bytes(128), 0, -1, -1, 0)",
    "faults by hand": "raw('userfaultfd', 1)",
    "the kernel's keys": "raw('keyctl', 0, -3, 1, 0, 0)",
    "a new key": "raw('add_key', b'user', b'x', b'x', 1, -3)",
    "calls in a ring": "raw('io_uring_setup', 1, bytes(120))",
    "calls by the old ring": "raw('io_setup', 1, bytes(8))",
    "another personality": "raw('personality', 0x0040000)",
    "swap": "raw('swapon', b'/scratch/x', 0)",
    "quotas": "raw('quotactl', 0, 0, 0, 0)",
}

MEMORY = {
    "fill memory": "kept = []\nfor _ in range(64): kept.append(mmap.mmap(-1, 256 << 20, flags=mmap.MAP_PRIVATE))",
    "one large object": "bytearray(3 << 30)",
    "shared memory without a name": "mmap.mmap(-1, 4096)",
    "shared memory by zeros": "mmap.mmap(os.open('/dev/zero', os.O_RDWR), 4096)",
    "memory that stays when given back": (
        "kept = []\nfor _ in range(16):\n    shared = mmap.mmap(-1, 1 << 20)\n    kept.append(shared)"
    ),
    "fill memory without an address": "call('memfd_create', b'x', 0)",
    "hidden memory": "raw('memfd_secret', 0)",
    "fill shared memory": "call('shmget', 0, ctypes.c_size_t(1 << 30), 0o1600)",
    "messages in the kernel": "call('msgget', 0, 0o1600)",
    "semaphores in the kernel": "call('semget', 0, 1, 0o1600)",
    "a queue with a name": "raw('mq_open', b'x', 0o102, 0o600, 0)",
    "pages in pipes": "raw('vmsplice', os.pipe()[1], 0, 0, 0)",
    "pages from pipe to pipe": "raw('splice', 0, 0, 0, 0, 1, 0)",
    "pages twice": "raw('tee', 0, 0, 1, 0)",
    "pages of files": "os.sendfile(os.pipe()[1], os.open(__file__, os.O_RDONLY), 0, 1)",
    "large pipes": "fcntl.fcntl(os.pipe()[1], 1031, 1 << 20)",
    "memory that stays": "raw('mlockall', 3)",
    "some memory that stays": "raw('mlock', 0, 4096)",
    "memory of other nodes": "raw('move_pages', 1, 0, 0, 0, 0, 0)",
    "timers": "raw('timer_create', 0, 0, bytes(8))",
    "timers as files": "raw('timerfd_create', 0, 0)",
    "signals as files": "raw('signalfd4', -1, bytes(8), 8, 0)",
    "many open files": "kept = [open('/dev/null') for _ in range(200)]",
    "many pipes": "kept = [os.pipe() for _ in range(200)]",
    "fill the disk": "file = open(tempfile.mkstemp()[1], 'wb')\nfor _ in range(99): file.write(bytes(1 << 20))",
    "fill the disk at once": "os.posix_fallocate(os.open('/scratch/x', os.O_RDWR | os.O_CREAT), 0, 80 << 20)",
    "one long file": "os.truncate(tempfile.mkstemp()[1], 65 << 20)",
    "many files": "for i in range(2_000): open(os.path.join(tempfile.gettempdir(), str(i)), 'w').close()",
    "many folders": "for i in range(2_000): os.mkdir(f'/scratch/{i}')",
    "thread bomb": "while True: threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()",
    "small threads": (
        "libc.mallopt(-8, 1)\nthreading.stack_size(1 << 18)\n"
        "for _ in range(1100): threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()"
    ),
}

REFUSED = FILES | PROCESSES | NETWORK | RIGHTS | MEMORY

STOPPED = {
    "loop": (LOOP, SLOW_MOVE),
    "loop that catches all": (
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        SLOW_MOVE,
    ),
    "ignored signals": (
        f"for n in range(1, 32):\n    if n not in (9, 19): signal.signal(n, signal.SIG_IGN)\n{LOOP}",
        SLOW_MOVE,
    ),
    "blocked signals": (f"signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))\n{LOOP}", SLOW_MOVE),
    "threads at work": (
        "def burn():\n    while True: pass\n"
        "for _ in range(3): threading.Thread(target=burn, daemon=True).start()\ntime.sleep(30)",
        SLOW_MOVE,
    ),
    "a hanging comparison": (
        "class Slow:\n    def __eq__(self, other):\n        while True: pass\nreturn [[Slow()] * 4]",
        SLOW_MOVE,
    ),
    "a hanging text": (
        "class E(Exception):\n    def __str__(self):\n        while True: pass\nraise E",
        SLOW_MOVE,
    ),
    "an expensive pattern": ("import re\nre.match('(a+)+$', 'a' * 60 + 'b')", SLOW_MOVE),
    "a huge power": ("return 3 ** (1 << 30)", SLOW_MOVE),
    "sleep": ("time.sleep(1000)", WAITED),
    "stop itself": ("os.kill(os.getpid(), signal.SIGSTOP)", WAITED),
    "exit": ("os._exit(0)", "ended its process (exit code 0)"),
    "exit in a thread": (
        "threading.Thread(target=os._exit, args=(3,)).start()\ntime.sleep(30)",
        "ended its process (exit code 3)",
    ),
    "crash": ("ctypes.string_at(0)", "crashed (signal 11)"),
    "abort": ("os.abort()", "crashed (signal 6)"),
    "kill itself": ("os.kill(os.getpid(), signal.SIGUSR1)", "crashed (signal 10)"),
    "deep recursion": ("f = lambda: f()\nf()", "raised RecursionError"),
    "no end of the stack": ("sys.setrecursionlimit(1 << 30)\ndef f(): return [*map(lambda _: f(), [0])]\nf()", None),
    "bad shape": ("return [[[1]] * 4] * 4", "returned [[[1], [1], [1], [1]]"),
    "not numbers": ("return [[float('nan')] * 4]", "returned [[nan, nan, nan, nan]]"),
    "nothing": ("return None", "returned None"),
    "huge answer": ("return [[2] * 10**6]", "returned [[2, 2, 2, 2"),
    "deep answer": ("deep = []\nfor _ in range(10**5): deep = [deep]\nreturn deep", "returned [[[[[[[...]]]]]]]"),
    "huge output": ("for _ in range(100): os.write(1, bytes(1 << 20)); os.write(2, bytes(1 << 20))", "returned None"),
    "hostile answer": (
        "class Odd:\n    def __getattr__(self, name): raise SystemExit\nreturn Odd()",
        "raised SystemExit",
    ),
    "hostile error": (
        "class E(Exception):\n    def __str__(self): raise KeyboardInterrupt\nraise E",
        "raised E: (without",
    ),
    "hostile class": ("raise type('x\\x1b\\n', (Exception,), {})", "raised x? :"),
    "terminal codes": ("raise ValueError('\\x1b]0;x\\x07' + 'x' * 10**6)", "raised ValueError: ?]0;x?xxx"),
    "a second line": ("raise ValueError('x\\nsnakes: y')", "raised ValueError: x snakes: y"),
    "letters from right to left": ("raise ValueError('\\u202ex')", "raised ValueError: ?x"),
    "garbage in the pipe": (EVERY_FILE.format("os.write(n, bytes(range(255, 0, -1)))") + LOOP, DISTURBED),
    "pickle in the pipe": (EVERY_FILE.format("os.write(n, bytes([0, 0, 0, 40]) + PICKLE)"), DISTURBED),
    "flood in the pipe": (EVERY_FILE.format("while True: os.write(n, bytes(1 << 16))"), DISTURBED),
    "moves ahead of time": (EVERY_FILE.format("os.write(n, bytes([0, 0, 0, 6]) + b'[4, 3]' * 9)") + LOOP, DISTURBED),
    "moves for others": (EVERY_FILE.format("os.write(n, bytes([0, 0, 0, 6]) + b'[9, 3]')") + LOOP, DISTURBED),
    "closed files": (f"os.closerange(0, 100)\n{LOOP}", DISTURBED),
    "patched modules": ("json.dumps = lambda *a, **k: 'garbage'\nsys.stdout = os.close = None", DISTURBED),
    "patched numbers": ("import numpy\nnumpy.array = None\nnumpy.array([1])", "raised TypeError"),
    "left at the end": (
        "import atexit\natexit.register(time.sleep, 1000)\nos._exit(5)",
        "ended its process (exit code 5)",
    ),
}  # None: any line

UNLOADABLE = {
    "exit at import": ("os._exit(0)", "ended its process (exit code 0)"),
    "loop at import": (LOOP, SLOW_MOVE),
    "quiet exit at import": ("sys.exit()", "SystemExit"),
    "crash at import": ("ctypes.string_at(0)", "crashed (signal 11)"),
    "patched builtins": ("import builtins\nbuiltins.callable = None", "ended its process (exit code 0)"),
    "an error without a text": (
        "class E(BaseException):\n    def __str__(self): raise E\nraise E",
        "E: (without a text)",
    ),
    "memory at import": ("kept = bytearray(3 << 30)", "MemoryError"),
    "threads at import": (
        "def burn():\n    while True: pass\nthreading.Thread(target=burn, daemon=True).start()\ntime.sleep(30)",
        SLOW_MOVE,
    ),
}

# Every call of the tables that is refused, asked for by its number.
CALLS = sorted({*REFUSED_CALLS, *UNKNOWN_TO_LIBC})


def numbers(machine: str) -> dict[str, int]:
    """The numbers of all calls that the tables know on this machine."""
    place = MACHINES.index(machine)
    tables = [ALLOWED, REFUSED_CALLS, UNKNOWN_TO_LIBC, {name: of for name, (of, _) in RULES.items()}]
    return {name: of[place] for table in tables for name, of in table.items() if of[place] is not None}

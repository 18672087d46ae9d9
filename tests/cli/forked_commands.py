"""Commands in processes that have torch loaded already: each is forked from one that waits here.

Loading torch and what it loads at an optimizer's first step takes longer than most of the scripts that
are recorded in tests. The program still imports torch by itself: until then it is not in `sys.modules`,
and who waits for that import is called.

A line of JSON on stdin is a command (`arguments`, `cwd`, `environment`, and the files `out` and `err`);
its exit code is the line that answers it.
"""

import gc
import importlib
import json
import os
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec

LOADED = ("torch", "torch._dynamo", "torch.optim", "torch.profiler", "torch.utils.data")


class Hidden(MetaPathFinder, Loader):
    """Has a loaded module imported when somebody asks for it."""

    def __init__(self, name):
        self.name = name
        self.module = sys.modules.pop(name)
        self.is_package = hasattr(self.module, "__path__")

    def find_spec(self, fullname, path, target=None):
        if fullname != self.name:
            return None
        return ModuleSpec(fullname, self, origin=self.module.__file__, is_package=self.is_package)

    def create_module(self, spec):
        return self.module

    def exec_module(self, module):
        sys.meta_path.remove(self)


def become(command):
    """In the child: runs the command as a process of its own would."""
    for descriptor, name in ((1, "out"), (2, "err")):
        file = os.open(command[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, descriptor)
        os.close(file)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(command["cwd"])
    os.environ.clear()
    os.environ.update(command["environment"])
    sys.path[0] = command["cwd"]
    sys.argv = ["stepscope", *command["arguments"]]
    from stepscope.cli.main import main

    sys.exit(main())


if __name__ == "__main__":
    for name in LOADED:
        importlib.import_module(name)
    sys.meta_path.insert(0, Hidden("torch"))
    # Else each child would copy all that is loaded, by looking for what of it may be freed.
    gc.freeze()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            become(json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)

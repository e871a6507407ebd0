"""Principals, the keys of a bucket, and the permissions that each principal has on them."""

from __future__ import annotations

from bastion.records.keys import layout
from bastion.service.access.grants import People, Right

PEOPLE = People(
    bastion="the-bastion",
    agents=("machines",),
    pool_agents={"gpu": ("gpus",), "gp": ("gps",)},
    admins=("root",),
    users={"ann": "A", "ben": "B"},
)
MEMBERS = {"blue": ["ann", "ben"], "red": ["ann", "cat"]}
EVERY_KEY = {
    "request of ann in blue": layout.request("blue", "ann", "U", "launch"),
    "request of ann in red": layout.request("red", "ann", "U", "launch"),
    "request of ben in blue": layout.request("blue", "ben", "U", "launch"),
    "request of ben in red": layout.request("red", "ben", "U", "launch"),
    "request of an admin": layout.request(layout.ADMIN, "root", "U", "drain"),
    "bell": layout.bell("gpu-1-0", 1, 1),
    "claim": layout.claim("blue", "j", 1, "n", replica=0, host=0, machine="gpu-1-0"),
    "end": layout.end("blue", "j", 1, "n", replica=0, host=0, machine="gpu-1-0"),
    "go": layout.go("blue", "j", 1, "n"),
    "life": layout.life("gpu-1-0", 1),
    "check": layout.check("gpu-1-0", "U"),
    "long command": layout.argv("gpu-1-0", "U", "d"),
    "instructions": layout.instructions("gpu-1-0", 1, 1),
    "log": layout.log("blue", "j", 1, replica=0, host=0, process=0) + "000000000000.log",
    "samples": layout.usage_segment(layout.usage("blue", "j", 1, replica=0, host=0), 0),
    "use of a machine": layout.machine_use("gpu-1-0"),
    "output of a command": layout.command_log("blue", "j", "U") + "000000000000.log",
    "end of a command": layout.command_end(layout.command_log("blue", "j", "U")),
    "output in blue": layout.output_content("blue", "j", "d"),
    "output in red": layout.output_content("red", "j", "d"),
    "saved output": layout.saved_output("blue", "j", 1, replica=0, host=0, number=1),
    "bundle": f"{layout.BUNDLES}packs/d",
    "manifest": f"{layout.BUNDLES}manifests/d",
    "origin": layout.origin("d"),
    "wheel": layout.wheel("d", "n.whl"),
    "spec": layout.spec("blue", "l"),
    "result": layout.result("blue", "j"),
    "answer": layout.answer("blue", "ann", "U"),
    "root": layout.ROOT,
    "events": layout.events(0),
    "copy of root": layout.snapshot("2026-01-01", 1),
    "aside": layout.aside(layout.bell("gpu-1-0", 1, 1)),
    "bastion's log": layout.bastion_log_segments("b") + "000000000000.log",
    "its tail": layout.bastion_log("b"),
    "the tail of one with a VM": layout.bastion_log("b-bastion"),
    "view": layout.view("queue"),
    "record of a day": layout.day_file("attempts", "2026-01-01", 0, 9),
    "record of the last days": layout.recent_file("attempts", 0, 9),
    "quota": layout.QUOTA,
    "config": layout.CONFIG,
    "inventory of hosts": layout.inventory("rack.hosts"),
}
CODE = {"bundle", "manifest", "origin"}
LOGGED = {
    *("log", "samples", "output of a command", "end of a command"),
    *("bastion's log", "its tail", "the tail of one with a VM"),
}
STATE = {"root", "events", "copy of root", "aside"}
RECORD = {"record of a day", "record of the last days"}
COMMON = {
    *LOGGED,
    *CODE,
    "spec",
    "result",
    "answer",
    *STATE,
    "view",
    "quota",
    *RECORD,
    "use of a machine",
}
OUTPUTS = {"output in blue", "saved output", "output in red"}
OF_EVERY_POOL = {*LOGGED, *OUTPUTS}
OF_GPUS = {"use of a machine", "bell", "claim", "end", "life", "check", *OF_EVERY_POOL}
OBEYED = {"go", "instructions", "long command"}
OF_ANN = {"request of ann in blue", "request of ann in red"}
MAY = {
    ("A", Right.CREATE): {*OF_ANN, *CODE},
    ("B", Right.CREATE): {"request of ben in blue", *CODE},
    ("A", Right.READ): {*OF_ANN, *OUTPUTS, *COMMON},
    ("B", Right.READ): {"request of ben in blue", "output in blue", "saved output", *COMMON},
    ("A", Right.WRITE): set(),
    ("machines", Right.CREATE): OF_GPUS,
    ("machines", Right.READ): {*OF_GPUS, *OBEYED, "spec", "wheel", *CODE},
    ("machines", Right.WRITE): {"use of a machine"},
    ("gpus", Right.CREATE): OF_GPUS,
    ("gpus", Right.READ): {*OF_GPUS, *OBEYED, "spec", "wheel", *CODE},
    ("gpus", Right.WRITE): {"use of a machine"},
    ("gps", Right.CREATE): OF_EVERY_POOL,
    ("gps", Right.READ): {*OF_EVERY_POOL, "go", "spec", "wheel", *CODE},
    ("gps", Right.WRITE): set(),
    ("root", Right.CREATE): {"request of an admin", "quota", "config", "inventory of hosts"},
    ("root", Right.WRITE): {"quota", "config", "inventory of hosts"},
    ("root", Right.READ): set(EVERY_KEY),
    ("the-bastion", Right.WRITE): set(EVERY_KEY),
    ("cat", Right.READ): set(),
}

"""The quota file, the configuration and the secrets of the bastion that many tests share."""

from __future__ import annotations

QUOTA = """
[toml-schema]
version = "1"
[total_resources]
h100 = 16
[project_membership]
red = ["alice"]
blue = ["bob"]
[project_resources.red]
h100 = 0.5
[project_resources.blue]
h100 = 0.5
[scheduler]
min_runtime_s = 0
grace_s = 2
"""
CONFIG = """
[pools.local]
provider = "local"
count = 2
resources = { h100 = 8, cpu = 32 }
labels = { cluster = "primary", shard = "rl" }
keep_work = "30s"
[secrets.HF_TOKEN]
source = "env:HF_TOKEN"
projects = ["red"]
[secrets.WANDB_KEY]
source = "file:red/WANDB_KEY"
projects = ["red"]
[secrets.OF_GOOGLE]
source = "gcp:projects/p/secrets/key"
projects = ["red"]
[secrets.GONE]
source = "file:red/GONE"
projects = ["red"]
"""
IN_ENVIRONMENT = "hf_3nv1r0nment-token"
IN_FILE = "wandb_f1le-key"
IN_CLOUD = "cl0ud-manager-key"

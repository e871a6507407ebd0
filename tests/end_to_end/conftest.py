"""A bastion that serves many tests: machines with secrets, a key for git, and uv."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bastion.records.keys import layout
from tests.end_to_end.admin_files import CONFIG, IN_CLOUD, IN_ENVIRONMENT, IN_FILE, QUOTA
from tests.end_to_end.programs import Programs, until
from tests.end_to_end.roots import folder_root
from tests.servers.secret_manager import secret_manager


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    """Run a bastion on a folder, with two machines of eight devices each."""
    folder = tmp_path_factory.mktemp("programs")
    for made in ("bin", "secrets/red", "ssh"):
        (folder / made).mkdir(parents=True)
    (folder / "bin" / "uv").symlink_to(Path(sys.executable).with_name("uv"))
    for name in ("key", "known_hosts"):
        (folder / "ssh" / name).touch()
    (folder / "secrets" / "red" / "WANDB_KEY").write_text(f"{IN_FILE}\n")
    held = {"projects/p/secrets/key/versions/latest": IN_CLOUD.encode()}
    with folder_root(folder) as place, secret_manager(held) as (cloud, _):
        place.store.create(layout.QUOTA, QUOTA.encode())
        place.store.create(layout.CONFIG, CONFIG.encode())
        on = Programs(folder, place)
        on.env["PATH"] = f"{folder / 'bin'}:{on.env['PATH']}"
        on.env["BASTION_GIT_KEY_FILE"] = str(folder / "ssh" / "key")
        on.env["BASTION_GIT_KNOWN_HOSTS"] = str(folder / "ssh" / "known_hosts")
        only_machines = {
            "BASTION_SECRETS_DIR": str(folder / "secrets"),
            "BASTION_SECRET_HF_TOKEN": IN_ENVIRONMENT,
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER": cloud,
            "UV_PYTHON_DOWNLOADS": "never",
        }
        try:
            on.serve(env=only_machines)
            until(lambda: len(on.processes("bastion.agent.keeper")) == 2, "two keepers")
            yield on
        finally:
            on.stop_everything()
            sys.stdout.write(on.served)  # shown when the test failed

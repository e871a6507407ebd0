"""
A project at Google: the APIs, the bucket, service accounts, and their roles.

The roles are Google's own. `compute.instanceAdmin.v1` and `tpu.admin` create machines but do not
change permissions. `iam.serviceAccountUser`, only on the accounts of the machines, allows attaching
these to machines. Policies are changed with their etag, and read again after a concurrent change.

Source: iam.v1.json, cloudresourcemanager.v1.json, serviceusage.v1.json, storage.v1.json; Google
Cloud, "Compute Engine IAM roles", "Cloud TPU access control".
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

from bastion.account.google_apis import Apis, EnabledApis
from bastion.account.google_policies import bound
from bastion.account.needs import Needs, Step
from bastion.clock import Clock
from bastion.errors import ProviderRefusedError, SpecError
from bastion.provider.gcp.verdicts import Failure
from bastion.value import value

ROLES = {"gce": "roles/compute.instanceAdmin.v1", "gcp_tpu": "roles/tpu.admin"}
"""What the bastion's account needs in the project, by what it creates."""
USER = "roles/iam.serviceAccountUser"
_APIS = {"gce": "compute.googleapis.com", "gcp_tpu": "tpu.googleapis.com"}
_ALWAYS = ("storage.googleapis.com", "iam.googleapis.com", "compute.googleapis.com")
_ACCOUNT = re.compile(r"serviceAccount:(([^@]+)@([-a-z0-9.:]+)\.iam\.gserviceaccount\.com)")
_NAME = re.compile(r"[a-z][-a-z0-9]{4,28}[a-z0-9]", re.ASCII)
"""Source: iam.v1.json, `CreateServiceAccountRequest.accountId`."""
Json = dict[str, Any]


def steps(needs: Needs, clock: Clock) -> Iterator[Step]:
    """
    Yield what is required, in the order in which it can be created.

    Raises:
        SpecError: The project is unknown, or the name of an account is not allowed.
    """
    every = (needs.bastion, *needs.agents)
    accounts = [found for each in every if (found := _ACCOUNT.fullmatch(each))]
    if wrong := [repr(account[2]) for account in accounts if not _NAME.fullmatch(account[2])]:
        raise SpecError(
            f"{', '.join(wrong)}: not the name of a service account, which has 6 to 30 small"
            " letters,"
            " digits and dashes, a letter first"
        )
    project = needs.project or (accounts[0][3] if accounts else "")
    if not project:
        raise SpecError(
            "--cloud_project: missing, and the bastion's identity is not a service account of one"
        )
    apis = Apis(project, clock)
    names = dict.fromkeys((*_ALWAYS, *(_APIS[each] for each in needs.providers)))
    yield EnabledApis(apis=apis, names=tuple(names))
    if needs.location:
        yield Bucket(apis=apis, name=needs.bucket, location=needs.location)
    for account in accounts:
        yield Account(apis=apis, email=account[1], name=account[2], project=account[3])
    for provider in needs.providers:
        yield RoleInProject(apis=apis, member=needs.bastion, role=ROLES[provider])
    for account in accounts if needs.providers else ():
        if account[0] != needs.bastion:
            yield RoleOnAccount(
                apis=apis, email=account[1], project=account[3], member=needs.bastion, role=USER
            )


@value
class Bucket:
    """A bucket, with the settings of `bastion/service/access`."""

    apis: Apis
    name: str
    location: str

    @property
    def commands(self) -> tuple[str, ...]:
        """See `Step`."""
        url = f"gs://{self.name}"
        return (
            f"gcloud storage buckets describe {url} >/dev/null 2>&1 ||"
            f" gcloud storage buckets create {url} --project={self.apis.project}"
            f" --location={shlex.quote(self.location)} --uniform-bucket-level-access",
        )

    def take(self) -> str:
        """See `Step`."""
        api, what = self.apis["storage"], f"bucket gs://{self.name}"
        shown = api.ask(api.resource("buckets").get(bucket=self.name), what)
        if not isinstance(shown, Failure):
            return ""
        body: Json = {
            "name": self.name,
            "location": self.location,
            "iamConfiguration": {"uniformBucketLevelAccess": {"enabled": True}},
        }
        request = api.resource("buckets").insert(project=self.apis.project, body=body)
        made = api.ask(request, what)
        if isinstance(made, Failure):
            raise ProviderRefusedError(
                f"{what}: {made.text}",
                hint="the names of buckets are unique in all of Google's cloud",
            )
        return f"made bucket gs://{self.name} in {self.location}"


@value
class Account:
    """A service account."""

    apis: Apis
    email: str
    name: str
    project: str

    @property
    def commands(self) -> tuple[str, ...]:
        """See `Step`."""
        of = f"--project={self.project}"
        return (
            f"gcloud iam service-accounts describe {self.email} {of} >/dev/null 2>&1 ||"
            f" gcloud iam service-accounts create {self.name} {of}",
        )

    def take(self) -> str:
        """See `Step`."""
        api, what = self.apis["iam"], f"service account {self.email}"
        accounts = api.resource("projects.serviceAccounts")
        path = f"projects/{self.project}/serviceAccounts/{self.email}"
        if not isinstance(api.ask(accounts.get(name=path), what), Failure):
            return ""
        body = {"accountId": self.name, "serviceAccount": {"displayName": "Bastion"}}
        api.ask(accounts.create(name=f"projects/{self.project}", body=body), what)
        return f"made service account {self.email}"


@value
class RoleInProject:
    """A role in the whole project."""

    apis: Apis
    member: str
    role: str

    @property
    def commands(self) -> tuple[str, ...]:
        """See `Step`."""
        return (
            f"gcloud projects add-iam-policy-binding {self.apis.project} --role={self.role}"
            f" --member={shlex.quote(self.member)} --condition=None",
        )

    def take(self) -> str:
        """See `Step`."""
        api, project = self.apis["cloudresourcemanager"], self.apis.project
        projects = api.resource("projects")
        return bound(
            api,
            lambda: projects.getIamPolicy(
                resource=project, body={"options": {"requestedPolicyVersion": 3}}
            ),
            lambda body: projects.setIamPolicy(resource=project, body=body),
            (self.member, self.role),
            f"project {project}",
        )


@value
class RoleOnAccount:
    """A role on one service account."""

    apis: Apis
    email: str
    project: str
    member: str
    role: str

    @property
    def commands(self) -> tuple[str, ...]:
        """See `Step`."""
        return (
            f"gcloud iam service-accounts add-iam-policy-binding {self.email}"
            f" --project={self.project} --role={self.role} --member={shlex.quote(self.member)}",
        )

    def take(self) -> str:
        """See `Step`."""
        api = self.apis["iam"]
        accounts = api.resource("projects.serviceAccounts")
        path = f"projects/{self.project}/serviceAccounts/{self.email}"
        return bound(
            api,
            lambda: accounts.getIamPolicy(resource=path, options_requestedPolicyVersion=3),
            lambda body: accounts.setIamPolicy(resource=path, body=body),
            (self.member, self.role),
            f"service account {self.email}",
        )

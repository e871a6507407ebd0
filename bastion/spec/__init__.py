"""
What users write: a launch, its jobs, their processes, and what they ask for.

Everything is checked when made and says every problem it has at once. Nothing here knows what
machines exist, what a project may hold, or where anything is stored.
"""

from bastion.spec.after import After
from bastion.spec.code import BundleRef, Code, CodeRef, GitRef, ImageRef
from bastion.spec.launch import Job, Launch, Process, job_ids
from bastion.spec.names import check_name, job_id
from bastion.spec.notify import Notify
from bastion.spec.python_env import PythonEnv, python_problems
from bastion.spec.quantity import bytes_of, seconds_of, text_of_bytes, text_of_seconds
from bastion.spec.request import Request, request_of
from bastion.spec.resources import Resources
from bastion.spec.secret import Secret, secret_of
from bastion.spec.where import Where

__all__ = [
    "After",
    "BundleRef",
    "Code",
    "CodeRef",
    "GitRef",
    "ImageRef",
    "Job",
    "Launch",
    "Notify",
    "Process",
    "PythonEnv",
    "Request",
    "Resources",
    "Secret",
    "Where",
    "bytes_of",
    "check_name",
    "job_id",
    "job_ids",
    "python_problems",
    "request_of",
    "seconds_of",
    "secret_of",
    "text_of_bytes",
    "text_of_seconds",
]

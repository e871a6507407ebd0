# docker build --target bastion -t bastion .
# To pin the base for good: --build-arg PYTHON_IMAGE=python:3.11-slim@sha256:... of your platform.

ARG PYTHON_IMAGE=python:3.11-slim
FROM ${PYTHON_IMAGE} AS wheel
WORKDIR /source
COPY constraints.txt .
RUN pip install --no-cache-dir -c constraints.txt hatchling
COPY pyproject.toml README.md LICENSE ./
COPY quota quota
COPY bundler bundler
COPY bastion bastion
COPY launch launch
COPY docs docs
RUN pip wheel --no-cache-dir --no-build-isolation --no-deps --wheel-dir /wheels .

FROM ${PYTHON_IMAGE} AS bastion
# git resolves a branch to a commit at submission; ssh is how it reaches private repositories.
RUN apt-get update \
    && apt-get install -y --no-install-recommends git openssh-client \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 bastion
COPY constraints.txt /tmp/constraints.txt
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir -c /tmp/constraints.txt "$(ls /wheels/*.whl)[aws,azure,gce,history,web]" \
    && rm -rf /wheels /tmp/constraints.txt
USER bastion
WORKDIR /home/bastion
# The log is the container's output: nothing may wait in a buffer when it is killed.
ENV PYTHONUNBUFFERED=1
ENTRYPOINT ["bastion"]

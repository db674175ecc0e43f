# Holdfast in a container: `docker compose up -d` builds and runs it. docs/services.md says the rest.

ARG PYTHON=3.13

FROM python:${PYTHON}-slim-bookworm AS build
RUN pip install --no-cache-dir --disable-pip-version-check uv
WORKDIR /src
# What the lock file names, before the code: a change of the code installs nothing anew.
COPY pyproject.toml uv.lock ./
ENV UV_PROJECT_ENVIRONMENT=/opt/holdfast UV_LINK_MODE=copy UV_PYTHON_DOWNLOADS=never
RUN uv sync --frozen --no-dev --extra fast --no-install-project
COPY README.md LICENSE ./
COPY src ./src
RUN uv sync --frozen --no-dev --extra fast --no-editable \
    && /opt/holdfast/bin/python -m compileall -q /opt/holdfast/lib

FROM python:${PYTHON}-slim-bookworm
# bubblewrap confines the agents' commands; the others are what those commands usually need.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends bubblewrap ca-certificates curl git procps \
    && rm -rf /var/lib/apt/lists/*
RUN groupadd --gid 10001 holdfast \
    && useradd --uid 10001 --gid holdfast --home-dir /data --shell /usr/sbin/nologin holdfast \
    && install --directory --owner holdfast --group holdfast --mode 0700 /data
COPY --from=build /opt/holdfast /opt/holdfast

ENV PATH=/opt/holdfast/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/data \
    HOLDFAST_HOME=/data \
    HOLDFAST_GATEWAY_HOST=0.0.0.0 \
    PYTHONDONTWRITEBYTECODE=1

# By number, so that whoever forbids root can see that it is none.
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8787

# The boot is the first process: it reaps, passes signals on, and keeps one gateway running.
STOPSIGNAL SIGTERM
ENTRYPOINT ["holdfast"]
CMD ["gateway", "boot"]

HEALTHCHECK --interval=30s --timeout=10s --start-period=60s --retries=3 \
    CMD ["holdfast", "status", "--quiet"]

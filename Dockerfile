# Image of Holdfast. Build and run it with `docker compose up -d`; see docs/services.md.

ARG PYTHON=3.13

FROM python:${PYTHON}-slim-bookworm AS build
RUN pip install --no-cache-dir --disable-pip-version-check uv
WORKDIR /src
# Dependencies first, so that a change of the code does not install them again.
COPY pyproject.toml uv.lock ./
ENV UV_PROJECT_ENVIRONMENT=/opt/holdfast UV_LINK_MODE=copy UV_PYTHON_DOWNLOADS=never
# Every platform, with encryption for Matrix, and a bwrap. `all` would add a browser, OpenTelemetry and a model.
ARG EXTRAS="--extra telegram --extra discord --extra slack --extra matrix --extra e2e --extra xmpp --extra email --extra sandbox"
RUN uv sync --frozen --no-dev --no-install-project ${EXTRAS}
COPY README.md LICENSE ./
COPY src ./src
RUN uv sync --frozen --no-dev --no-editable ${EXTRAS} \
    && /opt/holdfast/bin/python -m compileall -q /opt/holdfast/lib

FROM python:${PYTHON}-slim-bookworm
# bubblewrap confines the commands of agents; the other packages are common tools for them.
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

# A numeric user lets Kubernetes verify that it is not root (runAsNonRoot).
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8787

# PID 1 reaps processes, forwards signals and keeps one gateway running.
STOPSIGNAL SIGTERM
ENTRYPOINT ["holdfast"]
CMD ["gateway", "boot"]

HEALTHCHECK --interval=30s --timeout=10s --start-period=60s --retries=3 \
    CMD ["holdfast", "status", "--quiet"]

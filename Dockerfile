# clew serve as a small image that runs without root. See docs/server-access.md.
FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
RUN python -m venv --without-pip /opt/clew \
    && pip --no-cache-dir --python /opt/clew/bin/python install -c constraints.txt '.[durable,mcp,postgres]'

FROM python:3.13-slim
# git for worktrees and for the model's tools; bubblewrap for the sandbox of commands.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends bubblewrap git \
    && rm -rf /var/lib/apt/lists/* \
    && python -m pip uninstall --yes pip \
    && useradd --uid 10001 --create-home clew \
    && install --directory --owner clew --group clew --mode 0700 /data \
    && install --directory --owner clew --group clew /work
COPY --from=build /opt/clew /opt/clew
ENV PATH=/opt/clew/bin:$PATH \
    CLEW_HOME=/data \
    PYTHONUNBUFFERED=1
USER 10001
WORKDIR /work
# Token, users, audit log, and sessions unless CLEW_STORE names a database.
VOLUME /data
EXPOSE 8765
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8765/api/v1/health', timeout=3)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["clew"]
CMD ["serve", "--host", "0.0.0.0"]

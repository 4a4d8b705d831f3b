# The images of Berth, one target each: berth-scheduler, berth-agent, berth. `make images` builds them.
# The binaries are static; the images hold nothing else.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY api api
COPY cmd cmd
COPY deploy deploy
COPY internal internal
COPY placement placement
COPY sysfs sysfs
COPY topology topology
ARG LDFLAGS="-s -w"
ENV CGO_ENABLED=0
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    mkdir /out && go build -trimpath -ldflags "${LDFLAGS}" -o /out/ ./cmd/berth-scheduler ./cmd/berth-agent ./cmd/berth

FROM scratch AS berth-scheduler
COPY --from=build /out/berth-scheduler /berth-scheduler
USER 65532:65532
ENTRYPOINT ["/berth-scheduler"]

# Runs as root, without capabilities: the kubelet's checkpoints are readable by their owner alone.
FROM scratch AS berth-agent
COPY --from=build /out/berth-agent /berth-agent
ENTRYPOINT ["/berth-agent"]

FROM scratch AS berth
COPY --from=build /out/berth /berth
USER 65532:65532
ENTRYPOINT ["/berth"]

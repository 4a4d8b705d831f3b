module github.com/berth-dev/berth/lab

go 1.26.0

require (
	github.com/berth-dev/berth v0.0.0
	go.yaml.in/yaml/v3 v3.0.5
)

replace github.com/berth-dev/berth => ../

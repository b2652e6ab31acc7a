module planb/benchmarks/rivals/bart

go 1.24

require github.com/gaissmai/bart v0.20.4

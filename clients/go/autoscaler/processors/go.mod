module trimtab.dev/clients/go/autoscaler/processors

go 1.26.0

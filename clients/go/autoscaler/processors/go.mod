module trimtab.dev/clients/go/autoscaler/processors

go 1.26.0

replace trimtab.dev/clients/go => ../../

require trimtab.dev/clients/go v0.0.0-00010101000000-000000000000

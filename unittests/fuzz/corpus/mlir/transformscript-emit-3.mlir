module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    transform.fx.region_strategy %root {freeze, regions = {"linear 4x8 8x8" = "float16x3", "say \22no\22\0A" = "bfloat16"}} : !transform.any_op
    transform.yield
  }
}

"""Kernel names as profilers give them, and where they belong."""

import pytest
from end_to_end.categories import CATEGORIES, LABELS, RULES, by_category, category_of

NAMES = {
    "gemm": [
        "nvjet_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNT",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize2x1x1",
        "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x128_32x5_tn_align8>(Params)",
        "void gemv2T_kernel_val<int, int, __nv_bfloat16, __nv_bfloat16, float, 128, 16, 4, 4, false>(...)",
        "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>(cublasLt::cublasSplitKParams<float>)",
        "triton_tem_fused_addmm_gelu_view_3",
    ],
    "attention": [
        "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>(pytorch_flash::Flash_fwd_params)",
        "void pytorch_flash::flash_fwd_splitkv_kernel<...>(pytorch_flash::Flash_fwd_params)",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_kernel0_0",
        "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<...>::Params)",
        "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false, false>(float*, float const*)",
    ],
    "norm": [
        "void adaln_rows<__nv_bfloat16, 256, 1, true>(AdalnArguments)",
        "void adaln_affine<...>(...)",
        "void adaln_groups<...>(...)",
        "void adaln_phases<...>(...)",
        "void adaln_uniform<...>(...)",
        "void gate_residual_elements<...>(...)",
        "void rms_norm_unaligned<...>(...)",
        "void gate_residual_packs<__nv_bfloat16>(GateArguments)",
        "void qk_norm_rope3d_twice<__nv_bfloat16, 2048>(...)",
        "void rope3d_tokens<__nv_bfloat16, 64>(...)",
        "void rms_norm_rows_twice<__nv_bfloat16>(...)",
        "void rms_norm_narrow<...>(...)",
        "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_3",
        "triton_poi_fused__to_copy_add_cat_cos_mul_neg_sin_7",
        "triton_red_fused__scaled_dot_product_flash_attention_add_mean_mul_pow_rsqrt_5",
        "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float)",
        "void at::native::vectorized_elementwise_kernel<4, at::native::rsqrt_kernel_cuda(at::TensorIteratorBase&)>(int)",
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float>>>(...)",
    ],
    "activation": [
        "void gated<__nv_bfloat16, 1, false>(GatedArguments)",
        "triton_poi_fused_addmm_gelu_view_12",
        "triton_poi_fused_mul_silu_5",
        "void at::native::vectorized_elementwise_kernel<8, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&)>(int)",
        "void at::native::vectorized_elementwise_kernel<8, at::native::(anonymous namespace)::silu_kernel(...)>(int)",
    ],
    "elementwise": [
        "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::CUDAFunctor_add<float>>>(int)",
        "void at::native::vectorized_elementwise_kernel<8, at::native::BinaryFunctor<c10::BFloat16, c10::BFloat16>>(int)",
        "triton_poi_fused_add_mul_9",
        "triton_poi_fused__scaled_dot_product_cudnn_attention_view_2",
    ],
    "copy": [
        "Memcpy DtoD (Device -> Device)",
        "Memcpy HtoD (Pageable -> Device)",
        "Memset (Device)",
        "void at::native::vectorized_elementwise_kernel<4, at::native::bfloat16_copy_kernel_cuda(...)>(int)",
        "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>(int)",
        "void at::native::(anonymous namespace)::CatArrayBatchedCopy_vectorized<...>(...)",
        "triton_poi_fused_clone_4",
    ],
    "other": ["void some_library::kernel<int>(int*)"],
}


@pytest.mark.parametrize("category, name", [(category, name) for category, names in NAMES.items() for name in names])
def test_a_kernel_s_name_tells_its_category(category, name):
    assert category_of(name) == category


def test_every_category_has_a_rule_and_a_label():
    assert set(LABELS) == set(CATEGORIES) and list(LABELS) == list(CATEGORIES)
    assert {category for category, _ in RULES} == set(CATEGORIES) - {"other", "idle"}


def test_times_are_summed_and_none_is_lost():
    sums = by_category([("nvjet_a", 2.0), ("nvjet_b", 1.0), ("Memset (Device)", 0.5), ("?", 0.25)])
    assert sums["gemm"] == 3.0 and sums["copy"] == 0.5 and sums["other"] == 0.25
    assert sum(sums.values()) == 3.75 and "idle" not in sums

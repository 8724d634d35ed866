//! Reads the launches of a captured graph.

use std::ffi::{CStr, c_char};

use cudarc::driver::{result, sys};

use super::driver::{GpuError, Said};
use super::recording::{Launch, Outcome, Recording};

/// The launch attributes that are recorded. Others, for events and memory domains, refer to objects of one process.
const ATTRIBUTES: [sys::CUlaunchAttributeID; 8] = [
    sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW,
    sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
    sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
    sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
    sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
    sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PRIORITY,
    sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION,
    sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
];

/// The function attributes that are recorded.
const FUNCTION: [sys::CUfunction_attribute; 3] = [
    sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
    sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
    sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
];

/// `CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC`: the dependent kernel may start before the other ends.
const PROGRAMMATIC: u8 = 1;
/// `CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC`: it starts after `griddepcontrol.launch_dependents` of all thread blocks.
const ON_TRIGGER: u8 = 1;

/// A recorded function attribute by its number.
pub(super) fn function_attribute(number: u32) -> Option<sys::CUfunction_attribute> {
    FUNCTION.into_iter().find(|known| *known as u32 == number)
}

/// A recorded launch attribute as the driver takes it.
pub(super) fn attribute(number: u32, bytes: &[u8]) -> Option<sys::CUlaunchAttribute> {
    let id = ATTRIBUTES.into_iter().find(|known| *known as u32 == number)?;
    let mut value = sys::CUlaunchAttributeValue { pad: [0; 64] };
    for (to, from) in (0..64).zip(bytes) {
        // C's `char` is unsigned on ARM.
        // SAFETY: `pad` covers the whole union, and every bit pattern of it is valid.
        unsafe { value.pad[to] = c_char::from_ne_bytes([*from]) };
    }
    Some(sys::CUlaunchAttribute { id, pad: [0; 4], value })
}

/// Reads the kernels of a captured graph, in an order in which they can be launched.
///
/// # Safety
/// `graph` is a graph of the current context, and the modules of its kernels are loaded.
pub(super) unsafe fn read(graph: sys::CUgraph) -> Result<Outcome, GpuError> {
    const DOING: &str = "reading the captured launches";
    let mut count = 0;
    // SAFETY (all below): the driver writes into what the arguments point to, no longer than it was told.
    unsafe {
        sys::cuGraphGetNodes(graph, std::ptr::null_mut(), &raw mut count).said(DOING)?;
        let mut nodes = vec![std::ptr::null_mut(); count];
        // The driver refuses to list the nodes of an empty graph.
        if count > 0 {
            sys::cuGraphGetNodes(graph, nodes.as_mut_ptr(), &raw mut count).said(DOING)?;
        }
        let mut launches = Vec::with_capacity(count);
        for (node, programmatic) in ordered(graph, &nodes)? {
            let mut kind = sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
            sys::cuGraphNodeGetType(node, &raw mut kind).said(DOING)?;
            // An empty node only orders others.
            if kind == sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY {
                continue;
            }
            if kind != sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL {
                return Ok(Outcome::NotAKernel(format!(
                    "the launcher put a {} on its stream; only kernels can be replayed",
                    name_of(kind)
                )));
            }
            let mut launch = launch(node)?;
            if programmatic {
                // Capture turns this attribute into an edge; the replay has no edges and needs the attribute.
                let id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
                let mut value = vec![0; 64];
                value[0] = 1;
                launch.attributes.retain(|(known, _)| *known != id as u32);
                launch.attributes.push((id as u32, value));
            }
            launches.push(launch);
        }
        Ok(Outcome::Done(Recording { launches }))
    }
}

/// How many nodes a graph has.
///
/// # Safety
/// As for [`read`].
pub(super) unsafe fn count(graph: sys::CUgraph) -> usize {
    let mut count = 0;
    // SAFETY: writes one number.
    let _ = unsafe { sys::cuGraphGetNodes(graph, std::ptr::null_mut(), &raw mut count) };
    count
}

fn name_of(kind: sys::CUgraphNodeType) -> String {
    format!("{kind:?}").trim_start_matches("CU_GRAPH_NODE_TYPE_").to_lowercase().replace('_', " ")
}

/// An edge of a captured graph.
struct Edge {
    from: sys::CUgraphNode,
    to: sys::CUgraphNode,
    data: sys::CUgraphEdgeData,
}

/// The edges of a graph, with their data: programmatic dependent launch is a kind of edge.
unsafe fn edges(graph: sys::CUgraph) -> Result<Vec<Edge>, GpuError> {
    const DOING: &str = "reading the order of the captured launches";
    let mut count = 0;
    // SAFETY: as in `read`.
    unsafe {
        let none = std::ptr::null_mut();
        sys::cuGraphGetEdges_v2(graph, none, none, std::ptr::null_mut(), &raw mut count).said(DOING)?;
        let mut from = vec![std::ptr::null_mut(); count];
        let mut to = vec![std::ptr::null_mut(); count];
        let mut data: Vec<sys::CUgraphEdgeData> = vec![std::mem::zeroed(); count];
        if count > 0 {
            let (from, to, data) = (from.as_mut_ptr(), to.as_mut_ptr(), data.as_mut_ptr());
            sys::cuGraphGetEdges_v2(graph, from, to, data, &raw mut count).said(DOING)?;
        }
        let ends = from.into_iter().zip(to).zip(data);
        Ok(ends.map(|((from, to), data)| Edge { from, to, data }).collect())
    }
}

/// The nodes in topological order. Branches that join again (a launcher may fork its stream within the capture) are replayed
/// one after another, which is correct and never faster.
///
/// With each node: whether it may start before the previous one ends (programmatic dependent launch).
unsafe fn ordered(graph: sys::CUgraph, nodes: &[sys::CUgraphNode]) -> Result<Vec<(sys::CUgraphNode, bool)>, GpuError> {
    if nodes.len() < 2 {
        return Ok(nodes.iter().map(|node| (*node, false)).collect());
    }
    // SAFETY: by the caller.
    let edges = unsafe { edges(graph) }?;
    let mut waiting: Vec<sys::CUgraphNode> = nodes.to_vec();
    let mut order: Vec<(sys::CUgraphNode, bool)> = Vec::with_capacity(nodes.len());
    while !waiting.is_empty() {
        let ready = waiting.iter().position(|node| {
            let mut before = edges.iter().filter(|edge| edge.to == *node);
            !before.any(|edge| waiting.contains(&edge.from))
        });
        let Some(ready) = ready else {
            return Err(GpuError::new("ordering the captured launches", "the graph has a cycle"));
        };
        let node = waiting.remove(ready);
        let mut before = edges.iter().filter(|edge| edge.to == node);
        // A single edge, from the previous launch, that waits only for its trigger.
        let programmatic = match (before.next(), before.next(), order.last()) {
            (Some(edge), None, Some((last, _))) => {
                edge.from == *last && edge.data.type_ == PROGRAMMATIC && edge.data.from_port == ON_TRIGGER
            }
            _ => false,
        };
        order.push((node, programmatic));
    }
    Ok(order)
}

/// Reads a kernel node.
unsafe fn launch(node: sys::CUgraphNode) -> Result<Launch, GpuError> {
    const DOING: &str = "reading a captured launch";
    // SAFETY: as in `read`.
    unsafe {
        let mut params: sys::CUDA_KERNEL_NODE_PARAMS = std::mem::zeroed();
        sys::cuGraphKernelNodeGetParams_v2(node, &raw mut params).said(DOING)?;
        let mut function = params.func;
        if function.is_null() {
            sys::cuKernelGetFunction(&raw mut function, params.kern).said(DOING)?;
        }
        let mut name = std::ptr::null();
        sys::cuFuncGetName(&raw mut name, function).said(DOING)?;
        let symbol = CStr::from_ptr(name).to_string_lossy().into_owned();
        let mut arguments = Vec::new();
        loop {
            let (mut offset, mut size) = (0, 0);
            let known = sys::cuFuncGetParamInfo(function, arguments.len(), &raw mut offset, &raw mut size);
            if known != sys::CUresult::CUDA_SUCCESS {
                break;
            }
            if params.kernelParams.is_null() {
                return Err(GpuError::new(
                    DOING,
                    format!(
                        "{symbol} was launched with packed arguments (`extra`), which cannot be recorded: pass them as `kernelParams`"
                    ),
                ));
            }
            let from = (*params.kernelParams.add(arguments.len())).cast::<u8>();
            arguments.push(std::slice::from_raw_parts(from, size).to_vec());
        }
        let mut attributes = Vec::new();
        for id in ATTRIBUTES {
            let mut value = sys::CUlaunchAttributeValue { pad: [0; 64] };
            if sys::cuGraphKernelNodeGetAttribute(node, id, &raw mut value) == sys::CUresult::CUDA_SUCCESS
                && value.pad.iter().any(|byte| *byte != 0)
            {
                let bytes = value.pad.iter().flat_map(|byte| byte.to_ne_bytes()).collect();
                attributes.push((id as u32, bytes));
            }
        }
        let own = |attribute| {
            result::function::get_function_attribute(function, attribute).ok().map(|value| (attribute as u32, value))
        };
        Ok(Launch {
            symbol,
            grid: [params.gridDimX, params.gridDimY, params.gridDimZ],
            block: [params.blockDimX, params.blockDimY, params.blockDimZ],
            shared: params.sharedMemBytes,
            attributes,
            function: FUNCTION.into_iter().filter_map(own).collect(),
            arguments,
        })
    }
}

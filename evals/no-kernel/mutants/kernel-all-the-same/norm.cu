__global__ void norm() {}

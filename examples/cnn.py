"""A small convolutional network on images of MNIST's shape, whose label is drawn into them.

python examples/cnn.py --plan examples/plans/cnn.toml --out runs/cnn
"""

import argparse

import torch
from torch import Tensor, nn
from torch.nn import functional
from training import Batches, Task, arguments, train


class ConvolutionalNetwork(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, 2 * channels, 3, padding=1)
        self.fc1 = nn.Linear(2 * channels * 49, 4 * channels)
        self.fc2 = nn.Linear(4 * channels, 10)

    def forward(self, images: Tensor) -> Tensor:
        x = functional.max_pool2d(functional.relu(self.conv1(images)), 2)
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        return self.fc2(functional.relu(self.fc1(x.flatten(1))))


def make(options: argparse.Namespace) -> Task:
    samples = options.batch_size or (4_096 if options.large else 64)

    def batch(random: torch.Generator) -> list[Tensor]:
        labels = torch.randint(10, (samples,), generator=random)
        images = 0.3 * torch.randn(samples, 1, 28, 28, generator=random)
        # A bar whose height says which digit it is.
        rows = torch.arange(28).expand(samples, 28)
        images[:, 0, :, 12:16] += (rows < 2 * labels.unsqueeze(1) + 4).float().unsqueeze(2)
        return [images, labels]

    def loss(model: nn.Module, batch: list[Tensor]) -> Tensor:
        images, labels = batch
        return functional.cross_entropy(model(images), labels)

    model = ConvolutionalNetwork(64 if options.large else 8)
    return Task(model, Batches(options.steps, batch), loss, learning_rate=0.03)


if __name__ == "__main__":
    train("cnn", arguments("cnn", steps=300, plan_steps=400), make)

"""ResNet-50 (He et al. 2015), written out so that it needs no other package.

python examples/resnet50.py --plan examples/plans/resnet50.toml --out runs/resnet50
"""

import argparse

import torch
from torch import Tensor, nn
from torch.nn import functional
from training import Batches, Task, arguments, train


class Bottleneck(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample: nn.Module | None = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        beside = x if self.downsample is None else self.downsample(x)
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        return self.relu(self.bn3(self.conv3(y)) + beside)


class ResNet50(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.layer1 = stage(64, 64, 3, stride=1)
        self.layer2 = stage(256, 128, 4, stride=2)
        self.layer3 = stage(512, 256, 6, stride=2)
        self.layer4 = stage(1024, 512, 3, stride=2)
        self.fc = nn.Linear(2048, classes)

    def forward(self, images: Tensor) -> Tensor:
        x = functional.max_pool2d(self.relu(self.bn1(self.conv1(images))), 3, 2, padding=1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def stage(inputs: int, width: int, blocks: int, stride: int) -> nn.Sequential:
    first = Bottleneck(inputs, width, stride)
    return nn.Sequential(first, *(Bottleneck(4 * width, width, 1) for _ in range(blocks - 1)))


def make(options: argparse.Namespace) -> Task:
    size = 224 if options.large else 64
    samples = options.batch_size or (256 if options.large else 4)
    classes = 1_000 if options.large else 10

    def batch(random: torch.Generator) -> list[Tensor]:
        labels = torch.randint(classes, (samples,), generator=random)
        images = torch.randn(samples, 3, size, size, generator=random)
        return [images + (labels / classes).view(-1, 1, 1, 1), labels]

    def loss(model: nn.Module, batch: list[Tensor]) -> Tensor:
        images, labels = batch
        return functional.cross_entropy(model(images), labels)

    return Task(ResNet50(classes), Batches(options.steps, batch), loss, learning_rate=0.001)


if __name__ == "__main__":
    train("resnet50", arguments("resnet50", steps=40, plan_steps=100), make)

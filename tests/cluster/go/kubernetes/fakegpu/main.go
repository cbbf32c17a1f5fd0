// fakegpu is a device plug-in of the kubelet that offers nvidia.com/gpu without a GPU.
//
// The devices stand in a file, one a line: "ID" or "ID unhealthy"; a change of the file is told to
// the kubelet. A container gets the ids that the kubelet chose in NVIDIA_VISIBLE_DEVICES, as from
// NVIDIA's own plug-in. It registers anew when the kubelet is started anew.
//
//	fakegpu DEVICES_FILE
package main

import (
	"context"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	resource = "nvidia.com/gpu"
	socket   = api.DevicePluginPath + "fakegpu.sock"
	pause    = 200 * time.Millisecond
)

type plugin struct {
	api.UnimplementedDevicePluginServer
	file string
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

func (p *plugin) ListAndWatch(_ *api.Empty, stream api.DevicePlugin_ListAndWatchServer) error {
	told := ""
	for stream.Context().Err() == nil {
		text, err := os.ReadFile(p.file)
		if err == nil && string(text) != told {
			told = string(text)
			if err := stream.Send(&api.ListAndWatchResponse{Devices: devices(told)}); err != nil {
				return err
			}
		}
		time.Sleep(pause)
	}
	return nil
}

func (p *plugin) Allocate(_ context.Context, wanted *api.AllocateRequest) (*api.AllocateResponse, error) {
	answer := &api.AllocateResponse{}
	for _, container := range wanted.ContainerRequests {
		answer.ContainerResponses = append(answer.ContainerResponses, &api.ContainerAllocateResponse{
			Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(container.DevicesIds, ",")},
		})
	}
	return answer, nil
}

func devices(text string) []*api.Device {
	var found []*api.Device
	for _, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		health := api.Healthy
		if len(words) > 1 {
			health = api.Unhealthy
		}
		found = append(found, &api.Device{ID: words[0], Health: health})
	}
	return found
}

func serve(file string) *grpc.Server {
	os.Remove(socket)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, &plugin{file: file})
	go server.Serve(listener)
	return server
}

func register() error {
	link, err := grpc.NewClient("unix://"+api.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer link.Close()
	limit, done := context.WithTimeout(context.Background(), 5*time.Second)
	defer done()
	_, err = api.NewRegistrationClient(link).Register(limit, &api.RegisterRequest{
		Version: api.Version, Endpoint: filepath.Base(socket), ResourceName: resource,
	})
	return err
}

func main() {
	var before os.FileInfo
	var server *grpc.Server
	for ; ; time.Sleep(pause) {
		now, err := os.Stat(api.KubeletSocket)
		if err != nil || (before != nil && os.SameFile(before, now) && before.ModTime() == now.ModTime()) {
			continue
		}
		if server != nil {
			server.Stop()
		}
		server = serve(os.Args[1])
		if err := register(); err != nil {
			log.Print(err)
			continue
		}
		before = now
		log.Print("registered")
	}
}
